// Counts of malloc and of pthread_mutex_lock in this process, by all threads and libraries but those named.
#pragma once

#include <cstdint>

namespace millrace::test {

struct Counts {
  std::uint64_t allocations = 0;
  std::uint64_t locks = 0;
};

Counts counts();

// Calls from the library whose path contains `name` are not counted from now on. REQUIRES: it is loaded.
void leave_out(const char* name);

}  // namespace millrace::test
