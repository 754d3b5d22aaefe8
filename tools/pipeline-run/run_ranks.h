// What a run asks of its ranks before it begins.
#pragma once

#include "common/join_ranks.h"
#include "millrace/error.h"
#include "millrace/util/group.h"

namespace millrace {

struct CommandLine;

// Throws Error(usage) where several ranks cannot do what the command line asks for.
RankPlace rank_place(const CommandLine& line);

// Joins the others only to tell them what ends this rank before it could begin: they end with it, and need not wait. Where they
// do not come within seconds, they are not told. REQUIRES: place.ranks > 1.
void tell_other_ranks(const RankPlace& place, CommandLine line, const Error& mistake);

// Throws Error(usage) on all ranks where they were started to do different things: one that only checks, or resumes, waits for
// messages that the others never send. All ranks call it first of all.
void require_same_command(const CommandLine& line, Group& group);

}  // namespace millrace
