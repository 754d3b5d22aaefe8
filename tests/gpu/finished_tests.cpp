// Listens for the end of each test, for visit.py, which has the figures of a program then that does not reach its own end:
//
//   [ RECORDS  ] {"bf16 logits": "1.20e-02 (bound 2e-02, rounding 4.00e-03)"}
//
// That only where MILLRACE_TEST_RECORDS is set; so is this, behind a test that failed and took the device with it:
//
//   [ DEVICE   ] lost after GpuReplica.CopiesUnderCompute: cudaStreamSynchronize failed: an illegal memory access was encountered
//
// The program then ends itself with kDeviceLost, and visit.py runs the tests that are left in another process.
#include "finished_tests.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace millrace::gpu {
namespace {

class PrintRecords : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    nlohmann::ordered_json records;
    for (int i = 0; i < test.result()->test_property_count(); ++i) {
      const testing::TestProperty& property = test.result()->GetTestProperty(i);
      records[property.key()] = property.value();
    }
    if (records.empty()) return;
    fmt::print("[ RECORDS  ] {}\n", records.dump());
    std::fflush(stdout);
  }
};

class LeaveALostDevice : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    const std::string why = why_device_is_lost();
    if (why.empty()) return;
    fmt::print("[ DEVICE   ] lost after {}.{}: {}\n", test.test_suite_name(), test.name(), why);
    std::fflush(stdout);
    _exit(kDeviceLost);  // what a normal end destroys may wait for the device
  }
};

// Before main(), which is GoogleTest's own. GoogleTest owns the listeners, and tells them of an end in reverse order: records
// come before its own line, and the device is looked at behind that.
const bool kListens = [] {
  if (std::getenv("MILLRACE_TEST_RECORDS") == nullptr) return false;
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  testing::TestEventListener* const printer = listeners.Release(listeners.default_result_printer());
  listeners.Append(new LeaveALostDevice);
  listeners.Append(printer);
  listeners.Append(new PrintRecords);
  return true;
}();

}  // namespace
}  // namespace millrace::gpu
