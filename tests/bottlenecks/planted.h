// Deliberately slow parts: a storage, stages and a communicator.
#pragma once

#include "millrace/plugin.h"

namespace millrace::test {

// Registers
//   storages "slowdisk" and "farstore": local files, of which each call takes 10 ms and 30 ms
//   a stage "locked", whose threads hold a lock for 12 ms a sample, and "one_by_one", serial, which computes for 12 ms a sample
//   a communicator "throttled", whose sums take 40 ms
void add_planted(Registry& registry);

}  // namespace millrace::test
