// Counts malloc and pthread_mutex_lock in this process, in all threads and in all libraries except excluded ones.
#pragma once

#include <cstdint>

namespace millrace::test {

struct Counts {
  std::uint64_t allocations = 0;
  std::uint64_t locks = 0;
};

Counts counts();

// Stops counting calls from the library whose path contains `name`. REQUIRES: it is loaded.
void leave_out(const char* name);

}  // namespace millrace::test
