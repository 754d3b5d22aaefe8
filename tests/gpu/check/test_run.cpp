#include "test_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

constexpr double kListLimit = 60;  // seconds: a program may look for devices when it lists its tests

std::string why_it_ended(int status) {
  return status > 128 ? fmt::format("ended by signal {}", status - 128) : fmt::format("ended with status {}", status);
}

}  // namespace

// How a process ended that was to run a group's tests.
struct TestRun::Ended {
  bool progressed = false;  // a test has begun, and is no longer in the group
  bool out_of_time = false;
  std::string why;  // it ended too early
};

TestRun::TestRun(const Setting& setting, Report& report, const std::vector<int>& cores, int processes)
    : setting_(setting), report_(report), all_cores_(cores), shares_(share_cores(cores, processes)) {}

int TestRun::run(const std::vector<TestGroup>& groups, const Budget& budget) {
  std::vector<TestGroup> together, alone;
  for (const TestGroup& group : groups) (group.alone ? alone : together).push_back(group);
  run_side_by_side(together, budget);
  for (const TestGroup& group : alone) run_group(group, all_cores_, budget);
  return left_;
}

void TestRun::run_side_by_side(const std::vector<TestGroup>& groups, const Budget& budget) {
  std::size_t next = 0;
  const auto work = [&](const std::vector<int>& cores) {
    while (true) {
      std::unique_lock lock(mutex_);
      if (next == groups.size()) return;
      const TestGroup& group = groups[next++];
      lock.unlock();
      run_group(group, cores, budget);
    }
  };
  std::vector<std::thread> threads;
  for (const auto& cores : shares_) threads.emplace_back([&] { work(cores); });
  for (std::thread& thread : threads) thread.join();
}

// In as many processes as it takes. Errors of this program itself end the group and are a row of the table.
void TestRun::run_group(TestGroup group, const std::vector<int>& cores, const Budget& budget) {
  const std::string name = group.program.filename().string();
  int in_vain = 0;  // processes in which no test has begun
  try {
    while (!group.tests.empty() && budget.left() > 0) {
      const Ended ended = run_process(group, cores, budget);
      if (ended.out_of_time) break;
      in_vain = ended.progressed ? 0 : in_vain + 1;
      if (in_vain < 2) continue;
      for (const std::string& test : group.tests) record(group, {test, "crashed", 0, "did not begin: " + ended.why, {}});
      return;
    }
  } catch (const std::exception& error) {  // the journal or a pipe: the other groups may fare better
    report_.row(name, "failed", error.what());
  }
  const std::lock_guard lock(mutex_);
  left_ += static_cast<int>(group.tests.size());
}

// Takes out of the group what has ended in one way or another.
TestRun::Ended TestRun::run_process(TestGroup& group, const std::vector<int>& cores, const Budget& budget) {
  const std::string log = next_log(group);
  Child child({.words = {group.program.string(), fmt::format("--gtest_filter={}", fmt::join(group.tests, ":"))},
               .environment = setting_.environment(),
               .log = log,
               .cores = cores});
  std::ofstream said(log, std::ios::app);
  TestLines lines;
  Ended ended;
  Budget patience(setting_.test_limit);
  const auto take = [&](const FinishedTest& test) {
    record(group, test);
    std::erase(group.tests, test.test);
  };
  while (const auto line = child.read_line(std::min(patience.left(), budget.left()))) {
    said << *line << std::endl;
    const std::string before = lines.running();
    if (const auto test = lines.read(*line)) take(*test);
    if (lines.running() == before) continue;
    patience = Budget(setting_.test_limit);
    ended.progressed = ended.progressed || !lines.running().empty();
  }
  ended.out_of_time = child.timed_out() && budget.left() <= 0;
  const bool hung = child.timed_out() && !ended.out_of_time;
  if (child.timed_out()) child.kill();
  const int status = child.wait();
  if (ended.out_of_time || (lines.running().empty() && status <= 1 && !hung)) return ended;
  ended.why = hung ? fmt::format("no end after {:.0f} s", setting_.test_limit) : why_it_ended(status);
  if (ended.progressed) {
    take({.test = lines.running().empty() ? "(after its tests)" : lines.running(),
          .result = hung ? "hung" : "crashed",
          .seconds = patience.spent(),
          .text = fmt::format("{}\n{}{}", ended.why, lines.said(), tail(log, 8))});
  }
  return ended;
}

void TestRun::record(const TestGroup& group, const FinishedTest& test) {
  report_.add("test", {{"program", group.program.filename().string()},
                       {"test", test.test},
                       {"result", test.result},
                       {"seconds", test.seconds},
                       {"text", test.result == "passed" ? "" : test.text},
                       {"records", test.records}});
}

std::string TestRun::next_log(const TestGroup& group) {
  const std::lock_guard lock(mutex_);
  return setting_.log(fmt::format("{}-{:03}", group.program.filename().string(), ++processes_));
}

std::vector<std::string> tests_of(const Setting& setting, const std::filesystem::path& program, const std::string& filter) {
  const std::string name = program.filename().string();
  const Finished listed = run({.words = {program.string(), "--gtest_list_tests"},
                               .environment = setting.environment(),
                               .log = setting.log(name + "-list")},
                              kListLimit);
  if (listed.timed_out || listed.status != 0) {
    fail(ErrorKind::run, "{} does not list its tests: {}", name, listed.timed_out ? "no answer" : why_it_ended(listed.status));
  }
  std::vector<std::string> tests = listed_tests(listed.output);
  std::erase_if(tests, [&](const std::string& test) { return !matches(setting.filter, test) || !matches(filter, test); });
  return tests;
}

}  // namespace millrace::gpu
