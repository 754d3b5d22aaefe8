// Properties of this machine's processor.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cpu {

DeviceInfo describe_processor();
bool multiplies_tiles();  // true if oneDNN uses AMX

// A replica's number of threads on these processors, or on all allowed ones. Sums are divided among them, so results depend on it
// bit for bit.
int threads_for(const std::vector<int>& cores);

// From now on the calling thread and the OpenMP regions that it opens run on these processors (a negative number: on any): a team
// of one pinned thread for each; on all allowed processors, without pinning, if `cores` is empty. libgomp keeps one team for each
// thread that opens regions, so two such threads have disjoint teams. If the environment limits OpenMP's threads, the team is
// smaller, and `warn` is called. Throws Error(run) if the system cannot start the threads.
void make_team(const std::vector<int>& cores, const std::function<void(std::string_view)>& warn);

}  // namespace millrace::cpu
