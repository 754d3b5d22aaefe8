#include "test_lines.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace millrace::gpu {
namespace {

std::vector<FinishedTest> read_all(TestLines& lines, const std::string& output) {
  std::vector<FinishedTest> finished;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (auto test = lines.read(line)) finished.push_back(*test);
  }
  return finished;
}

TEST(TestLines, TellWhatEachTestDid) {
  TestLines lines;
  const auto finished = read_all(lines, R"out([==========] Running 3 tests from 2 test suites.
[ RUN      ] Fixed/GpuOperators.AgreeInBf16/Conv
[ RECORDS  ] {"bf16 logits": "1.20e-02 (bound 2e-02, rounding 4.00e-03)"}
[       OK ] Fixed/GpuOperators.AgreeInBf16/Conv (1250 ms)
[ RUN      ] GpuReplica.Infers
a.cpp:12: Failure
Expected: (1) < (0)
[  FAILED  ] GpuReplica.Infers (3 ms)
[ RUN      ] GpuReplica.CopiesUnderCompute
a.cpp:20: Skipped
no device: there is no driver
[  SKIPPED ] GpuReplica.CopiesUnderCompute (0 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] GpuReplica.Infers
)out");
  ASSERT_EQ(finished.size(), 3U);
  EXPECT_EQ(finished[0].test, "Fixed/GpuOperators.AgreeInBf16/Conv");
  EXPECT_EQ(finished[0].result, "passed");
  EXPECT_DOUBLE_EQ(finished[0].seconds, 1.25);
  EXPECT_EQ(finished[0].records.value("bf16 logits", ""), "1.20e-02 (bound 2e-02, rounding 4.00e-03)");
  EXPECT_EQ(finished[1].result, "failed");
  EXPECT_EQ(finished[1].text, "a.cpp:12: Failure\nExpected: (1) < (0)\n");
  EXPECT_EQ(finished[2].result, "skipped");
  EXPECT_NE(finished[2].text.find("no device"), std::string::npos);
  EXPECT_EQ(lines.running(), "");
}

TEST(TestLines, NameTheTestThatHasNotEnded) {
  TestLines lines;
  EXPECT_TRUE(read_all(lines, "[ RUN      ] A.B\nwaiting for the device\n").empty());
  EXPECT_EQ(lines.running(), "A.B");
  EXPECT_EQ(lines.said(), "waiting for the device\n");
}

TEST(TestLines, AreFoundBehindTextWithoutALineEnd) {
  TestLines lines;
  const auto finished = read_all(lines, "[ RUN      ] A.B\nprogress: 10 %[       OK ] A.B (1 ms)\n");
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].result, "passed");
}

TEST(TestLines, AreNoEndOfAnotherTest) {
  TestLines lines;
  EXPECT_TRUE(read_all(lines, "[ RUN      ] A.B\n[       OK ] C.D (1 ms)\n").empty()) << "a test that prints what looks like one";
  EXPECT_EQ(lines.running(), "A.B");
}

TEST(TestLines, KeepTheBeginningOfALongText) {
  TestLines lines;
  lines.read("[ RUN      ] A.B");
  for (int i = 0; i < 1000; ++i) lines.read("line " + std::to_string(i) + " of many");
  EXPECT_LE(lines.said().size(), 2001U);
  EXPECT_TRUE(lines.said().starts_with("line 0 of many\n"));
}

}  // namespace
}  // namespace millrace::gpu
