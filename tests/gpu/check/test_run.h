// Runs groups of tests, each group in a process of its own, several side by side. Every test that ends is a "test" event of the
// journal at once. A test that hangs or crashes costs itself: the others of its group go on in another process.
#pragma once

#include <mutex>

#include "check.h"
#include "test_groups.h"
#include "test_lines.h"

namespace millrace::gpu {

class TestRun {
 public:
  // `cores` are divided among `processes` processes that run side by side, fewer where there are fewer cores.
  TestRun(const Setting& setting, Report& report, const std::vector<int>& cores, int processes);

  // Returns when `budget` is spent, or a few seconds later, and says how many tests have not run. Groups that need the device for
  // themselves come last, one by one, each with all cores.
  int run(const std::vector<TestGroup>& groups, const Budget& budget);

 private:
  struct Ended;  // of one process

  void run_side_by_side(const std::vector<TestGroup>& groups, const Budget& budget);
  void run_group(TestGroup group, const std::vector<int>& cores, const Budget& budget);
  Ended run_process(TestGroup& group, const std::vector<int>& cores, const Budget& budget);
  void record(const TestGroup& group, const FinishedTest& test);
  std::string next_log(const TestGroup& group);

  const Setting& setting_;
  Report& report_;
  const std::vector<int> all_cores_;
  const std::vector<std::vector<int>> shares_;
  std::mutex mutex_;  // for what follows
  int left_ = 0;
  int processes_ = 0;  // started so far; numbers the logs
};

// The tests of a program that match both filters. Throws Error(run) when the program does not list them.
std::vector<std::string> tests_of(const Setting& setting, const std::filesystem::path& program, const std::string& filter = "*");

}  // namespace millrace::gpu
