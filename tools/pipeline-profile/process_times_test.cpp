#include "process_times.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

namespace millrace {
namespace {

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); }

// Other programs may take more meanwhile. Linux counts in hundredths of a second.
TEST(ProcessTimes, HoldWhatAnotherProgramTookOfTheCores) {
  const ProcessTimes before = process_times();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 2;
    while (std::clock() < end) continue;
    _exit(0);
  }
  rusage used{};
  ASSERT_EQ(wait4(child, nullptr, 0, &used), child);
  EXPECT_GT(process_times().others - before.others, seconds_of(used.ru_utime) + seconds_of(used.ru_stime) - 0.1);
}

// Time of this process is not attributed to other programs: in any interval, both together are at most the cores.
TEST(ProcessTimes, LeaveOutWhatThisProcessTakes) {
  const ProcessTimes before = process_times();
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 2;
  while (std::clock() < end) continue;
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_LT(process_times().others - before.others, cores * passed - 0.5 + 0.1);
}

}  // namespace
}  // namespace millrace
