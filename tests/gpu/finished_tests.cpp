// Prints what each test recorded when it ends, so that gpu-check has the figures of a program that does not reach its own end:
//
//   [ RECORDS  ] {"bf16 logits": "1.20e-02 (bound 2e-02, rounding 4.00e-03)"}
//
// Only where MILLRACE_TEST_RECORDS is set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace millrace::gpu {
namespace {

class PrintRecords : public testing::EmptyTestEventListener {
  // Listeners hear of an end in reverse order: this line comes before GoogleTest's own.
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

// Before main(), which is GoogleTest's own. GoogleTest owns the listener.
const bool kListens = [] {
  if (std::getenv("MILLRACE_TEST_RECORDS") == nullptr) return false;
  testing::UnitTest::GetInstance()->listeners().Append(new PrintRecords);
  return true;
}();

}  // namespace
}  // namespace millrace::gpu
