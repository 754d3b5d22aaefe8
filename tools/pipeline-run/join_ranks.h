// The ranks of a run that options or a launcher have started, on this machine and others.
#pragma once

#include <string>

#include "millrace/communicator.h"
#include "ranks/rank_place.h"
#include "ranks/rendezvous.h"

namespace millrace {

struct CommandLine;
struct Pipeline;

// What the command line says of ranks, beside which one this is.
struct RankWishes {
  RankOptions options;
  std::string rendezvous, interface, key_file, wait = "600", patience = "10";
};

// Throws Error(usage) where several ranks cannot do what the command line asks for.
RankPlace rank_place(const CommandLine& line);

// Connects the ranks. Says on standard error whom it waits for. Throws what connect_ranks() does, and Error(usage) where nothing
// says how ranks find each other. REQUIRES: place.ranks > 1.
Connections join_ranks(const RankPlace& place, const CommandLine& line, const Pipeline& pipeline);

// Throws Error(usage) on all ranks where they were started to do different things: one that only checks, or resumes, waits for
// messages that the others never send. All ranks call it first of all.
void require_same_command(const CommandLine& line, Group& group);

}  // namespace millrace
