#include "trace_file.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(TraceWish, NamesAFileAndPerhapsTwoSteps) {
  EXPECT_EQ(trace_wish("out.json").steps.last, TraceSteps{}.last);
  const TraceWish wish = trace_wish("a:b/out.json:11-20");
  EXPECT_EQ(wish.file, "a:b/out.json");
  EXPECT_EQ(wish.steps.first, 10U);
  EXPECT_EQ(wish.steps.last, 19U);
  EXPECT_EQ(trace_wish("a:b").file, "a:b");
  for (const char* wrong : {"", ":1-2", "out.json:5", "out.json:0-5", "out.json:5-4", "out.json:-5", "out.json:1-2-3"}) {
    EXPECT_THROW(trace_wish(wrong), Error) << wrong;
  }
}

TEST(TraceWish, OfStepsThatTheRunHasNotIsAMistake) {
  const TraceWish wish = trace_wish("out.json:6-90");
  EXPECT_EQ(trace_mistake(wish, 6), "");
  EXPECT_MESSAGE(trace_mistake(wish, 5));
  EXPECT_EQ(trace_mistake(trace_wish("out.json"), 1), "");
}

TEST(TraceWish, EachRankHasAFile) {
  EXPECT_EQ(trace_file_name("a.b/out.json", 0), "a.b/out.json");
  EXPECT_EQ(trace_file_name("a.b/out.json", 3), "a.b/out.rank3.json");
  EXPECT_EQ(trace_file_name("out", 1), "out.rank1");
}

}  // namespace
}  // namespace millrace
