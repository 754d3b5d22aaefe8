// Coordinates a run's ranks before it begins.
#pragma once

#include "common/join_ranks.h"
#include "millrace/error.h"
#include "millrace/util/group.h"

namespace millrace {

struct CommandLine;

// Throws Error(usage) if several ranks cannot execute the command line.
RankPlace rank_place(const CommandLine& line);

// Joins the others only to send them the error that ends this rank before it could begin: they end with it, and need not wait. If
// they do not come within seconds, they are not notified. REQUIRES: place.ranks > 1.
void tell_other_ranks(const RankPlace& place, CommandLine line, const Error& mistake);

// Throws Error(usage) on all ranks if they were started with different commands: one that only checks, or resumes, waits for
// messages that the others never send. All ranks call it first of all.
void require_same_command(const CommandLine& line, Group& group);

}  // namespace millrace
