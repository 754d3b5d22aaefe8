#include "testkit/recording_order.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace::testkit {
namespace {

Operation op(const char* name, std::uint64_t step = 0) { return {name, step, -1, -1}; }
Access reads(std::uintptr_t begin = 0, std::uintptr_t end = 10) { return {"memory", begin, end, false}; }
Access writes(std::uintptr_t begin = 0, std::uintptr_t end = 10) { return {"memory", begin, end, true}; }

struct OrderCheckerTest : testing::Test {
  OrderChecker checker;
  int a = checker.add_stream(), b = checker.add_stream(), c = checker.add_stream();
};

TEST_F(OrderCheckerTest, AStreamIsInOrder) {
  checker.submit(a, op("write"), {writes()});
  checker.submit(a, op("read"), {reads()});
  checker.submit(a, op("write"), {writes()});
  EXPECT_TRUE(checker.violations().empty());
}

TEST_F(OrderCheckerTest, ReportsAReadThatDoesNotWaitForTheWrite) {
  checker.submit(a, {"fill", 3, 0, 1}, {writes()});
  checker.submit(b, {"sum", 3, 1, 1}, {reads()});
  ASSERT_EQ(checker.violations().size(), 1U);
  EXPECT_MESSAGE(checker.violations()[0].text());
}

TEST_F(OrderCheckerTest, ReportsAWriteThatDoesNotWaitForAReadOrAWrite) {
  checker.submit(a, op("read"), {reads()});
  checker.submit(b, op("write"), {writes()});
  EXPECT_EQ(checker.violations().size(), 1U);
  checker.submit(c, op("write"), {writes()});
  EXPECT_EQ(checker.violations().size(), 2U);
}

TEST_F(OrderCheckerTest, ReadersNeedNotWaitForEachOther) {
  checker.submit(a, op("read"), {reads()});
  checker.submit(b, op("read"), {reads()});
  EXPECT_TRUE(checker.violations().empty());
}

TEST_F(OrderCheckerTest, AnEventOrdersWhatWasBeforeIt) {
  const Clock before = checker.submit(a, op("write"), {writes()});
  checker.submit(a, op("late"), {{"other", 0, 10, true}});
  checker.wait(b, before);
  checker.submit(b, op("read"), {reads()});
  EXPECT_TRUE(checker.violations().empty());
  checker.submit(b, op("read"), {{"other", 0, 10, false}});
  ASSERT_EQ(checker.violations().size(), 1U) << "the event was recorded before";
  EXPECT_EQ(checker.violations()[0].before.name, "late");
}

TEST_F(OrderCheckerTest, OrderIsHandedOnFromStreamToStream) {
  checker.wait(b, checker.submit(a, op("write"), {writes()}));
  checker.wait(c, checker.now(b));
  checker.submit(c, op("write"), {writes()});
  EXPECT_TRUE(checker.violations().empty());
}

TEST_F(OrderCheckerTest, WhatTheHostHasSeenIsOverForEverybody) {
  checker.seen_by_host(checker.submit(a, op("write"), {writes()}));
  checker.submit(b, op("write"), {writes()});
  checker.submit(c, op("read"), {{"memory", 20, 30, false}});
  EXPECT_TRUE(checker.violations().empty());
}

TEST_F(OrderCheckerTest, DisjointPartsOfARegionAreIndependent) {
  checker.submit(a, op("write"), {writes(0, 5)});
  checker.submit(b, op("write"), {writes(5, 10)});
  EXPECT_TRUE(checker.violations().empty());
  checker.wait(c, checker.now(a));
  checker.submit(c, op("read"), {reads(0, 10)});
  EXPECT_EQ(checker.violations().size(), 1U) << "only the first half was waited for";
}

TEST_F(OrderCheckerTest, KnowsTheStepOfARegion) {
  EXPECT_EQ(checker.step_of("memory"), 0U);
  checker.submit(a, op("write", 7), {writes()});
  checker.submit(a, op("read", 9), {reads()});
  EXPECT_EQ(checker.step_of("memory"), 7U);
}

}  // namespace
}  // namespace millrace::testkit
