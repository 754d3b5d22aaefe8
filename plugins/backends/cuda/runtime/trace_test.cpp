// Summaries of a trace.
#include "trace.h"

#include <gtest/gtest.h>

namespace millrace::cuda {
namespace {

TEST(TraceSummary, CountsIdleTimeOfComputeAndCopiesUnderIt) {
  const std::vector<WorkSpan> spans = {{"copy", "batch", 0, 2}, {"compute", "forward", 2, 4},
                                       {"copy", "batch", 3, 5}, {"compute", "backward", 4, 6},
                                       {"update", "sgd", 5, 7}, {"compute", "forward", 8, 10}};
  const TraceSummary summary = summarise(spans, 0);
  EXPECT_DOUBLE_EQ(summary.seconds, 10);
  EXPECT_DOUBLE_EQ(summary.compute_idle, 0.4);   // 0 to 2 and 6 to 8
  EXPECT_DOUBLE_EQ(summary.copies_hidden, 0.5);  // the second of two
  ASSERT_EQ(summary.by_work.size(), 4U);
  EXPECT_EQ(summary.by_work[1].first, "compute: forward");
  EXPECT_DOUBLE_EQ(summary.by_work[1].second, 4);
}

TEST(TraceSummary, LeavesTheWarmUpOutAndOverlapsInOnce) {
  const std::vector<WorkSpan> spans = {{"compute", "slow", 0, 100}, {"compute", "a", 100, 103}, {"compute", "b", 102, 104}};
  EXPECT_DOUBLE_EQ(summarise(spans, 1).compute_idle, 0);
  EXPECT_DOUBLE_EQ(summarise(spans, 1).seconds, 4);
  EXPECT_DOUBLE_EQ(summarise(spans, 9).seconds, 0);
}

TEST(TraceJson, NamesQueuesAndCountsInMicroseconds) {
  const std::string text = trace_json({{"copy", "batch", 0, 0.5}, {"compute", "forward", 0.5, 0.75}}, 2);
  EXPECT_NE(text.find(R"({"name":"process_name","ph":"M","pid":2,"args":{"name":"cuda:2"}})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"name":"forward","ph":"X","pid":2,"tid":1,"ts":500000.000,"dur":250000.000})"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace millrace::cuda
