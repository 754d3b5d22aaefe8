// What this machine's processor is and can do.
#pragma once

#include <vector>

#include "millrace/backend.h"

namespace millrace::cpu {

DeviceInfo describe_processor();
bool multiplies_tiles();  // whether oneDNN uses AMX

// The processors that this process may run on.
std::vector<int> allowed_cores();

// From now on the calling thread, and OpenMP regions that it opens, run on these processors: a team of one thread for each,
// pinned. libgomp keeps one team for each thread that opens regions, so two such threads have disjoint teams.
void make_team(const std::vector<int>& cores);

}  // namespace millrace::cpu
