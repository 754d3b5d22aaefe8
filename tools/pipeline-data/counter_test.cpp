#include "counter.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// The output while ten of ten are counted; in tests, standard error is not a terminal.
std::string written(std::chrono::milliseconds pause) {
  testing::internal::CaptureStderr();
  {
    Counter counter("packed", 10, pause);
    for (int i = 0; i < 10; ++i) counter.add();
  }
  return testing::internal::GetCapturedStderr();
}

TEST(Counter, SaysNothingOfShortWorkWhereThereIsNoTerminal) { EXPECT_EQ(written(std::chrono::hours(1)), ""); }

TEST(Counter, WritesPlainLinesWhereThereIsNoTerminal) {
  const std::string text = written(std::chrono::milliseconds(0));
  EXPECT_EQ(text.find("packed 1 of 10\npacked 2 of 10\n"), 0U) << text;
  EXPECT_EQ(text.find('\r'), text.npos);
}

}  // namespace
}  // namespace millrace
