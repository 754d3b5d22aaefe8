// Prints the result of each test in JSON, for visit.py, which so gets results of programs that do not reach their end:
//
//   {"begins":"GpuLayers.AgreeInBf16"}
//   {"test":"GpuLayers.AgreeInBf16","result":"passed","seconds":3.2,"records":{"bf16 logits":"1.20e-02 (bound 2e-02, ...)"},"text":""}
//
// Only if MILLRACE_TEST_RECORDS is set; likewise this line, after a test that failed and lost the device:
//
//   [ DEVICE   ] lost after GpuReplica.CopiesUnderCompute: cudaStreamSynchronize failed: an illegal memory access was encountered
//
// The program then exits with kDeviceLost, and visit.py runs the remaining tests in another process.
#include "finished_tests.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace millrace::gpu {
namespace {

void say(const nlohmann::ordered_json& what) {
  fmt::print("{}\n", what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

std::string name_of(const testing::TestInfo& test) { return fmt::format("{}.{}", test.test_suite_name(), test.name()); }

class SayResults : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override { say({{"begins", name_of(test)}}); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& found = *test.result();
    nlohmann::ordered_json records = nlohmann::ordered_json::object();
    for (int i = 0; i < found.test_property_count(); ++i) {
      const testing::TestProperty& property = found.GetTestProperty(i);
      records[property.key()] = property.value();
    }
    std::string text;
    for (int i = 0; i < found.total_part_count(); ++i) text += found.GetTestPartResult(i).message() + std::string("\n");
    say({{"test", name_of(test)},
         {"result", found.Skipped()  ? "skipped"
                    : found.Passed() ? "passed"
                                     : "failed"},
         {"seconds", static_cast<double>(found.elapsed_time()) / 1000},
         {"records", records},
         {"text", text.substr(0, 2000)}});
  }
};

class LeaveALostDevice : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    const std::string why = why_device_is_lost();
    if (why.empty()) return;
    fmt::print("[ DEVICE   ] lost after {}: {}\n", name_of(test), why);
    std::fflush(stdout);
    _exit(kDeviceLost);  // destructors of a normal end may wait for the device
  }
};

// Before main(), which is GoogleTest's own. GoogleTest owns the listeners, and calls them in reverse order at a test's end:
// records precede its own line, and the device is checked after that.
const bool kListens = [] {
  if (std::getenv("MILLRACE_TEST_RECORDS") == nullptr) return false;
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  testing::TestEventListener* const printer = listeners.Release(listeners.default_result_printer());
  listeners.Append(new LeaveALostDevice);
  listeners.Append(printer);
  listeners.Append(new SayResults);
  return true;
}();

}  // namespace
}  // namespace millrace::gpu
