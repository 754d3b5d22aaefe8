// What this machine's processor is and can do.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cpu {

DeviceInfo describe_processor();
bool multiplies_tiles();  // whether oneDNN uses AMX

// How many threads a replica has on these processors, or on all allowed ones. Sums are shared out among them, so that bits depend
// on it.
int threads_for(const std::vector<int>& cores);

// From now on the calling thread, and OpenMP regions that it opens, run on these processors: a team of one thread for each,
// pinned; of all allowed processors, without pinning, where `cores` is empty. libgomp keeps one team for each thread that opens
// regions, so two such threads have disjoint teams. Where the environment allows OpenMP fewer threads the team is smaller, and
// `warn` is called. Throws Error(run) where the system starts no more threads.
void make_team(const std::vector<int>& cores, const std::function<void(std::string_view)>& warn);

}  // namespace millrace::cpu
