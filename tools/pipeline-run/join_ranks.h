// The ranks of a run that options or a launcher have started, on this machine and others.
#pragma once

#include <string>

#include "millrace/communicator.h"
#include "ranks/rank_place.h"
#include "ranks/socket_group.h"

namespace millrace {

struct CommandLine;

// What the command line says of ranks, beside which one this is.
struct RankWishes {
  RankOptions options;
  std::string rendezvous, interface, key_file, wait = "600", patience = "10";
};

// Throws Error(usage) where several ranks cannot do what the command line asks for.
RankPlace rank_place(const CommandLine& line);

// Connects the ranks. Says on standard error whom it waits for. `runs`: the folder of runs, where ranks may meet. Throws what
// connect_ranks() does, and Error(usage) where nothing says how ranks find each other. REQUIRES: place.ranks > 1.
SocketGroup::Setting join_ranks(const RankPlace& place, const CommandLine& line, const std::string& runs);

// Joins the others only to tell them what ends this rank before it could begin: they end with it, and need not wait. Where they
// do not come within seconds, they are not told. REQUIRES: place.ranks > 1.
void tell_other_ranks(const RankPlace& place, CommandLine line, const Error& mistake);

// Throws Error(usage) on all ranks where they were started to do different things: one that only checks, or resumes, waits for
// messages that the others never send. All ranks call it first of all.
void require_same_command(const CommandLine& line, Group& group);

}  // namespace millrace
