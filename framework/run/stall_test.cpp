#include "run/stall.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(Stall, IsSaidAfterManyTimesTheUsualPause) {
  EXPECT_EQ(StallWatch::patience(0, 0), 30) << "a first step may compile and fetch";
  EXPECT_EQ(StallWatch::patience(0.05, 1000), 10);
  EXPECT_EQ(StallWatch::patience(4, 1000), 40) << "a step of a large network takes as long";
  EXPECT_EQ(StallWatch::patience(4, 3), 40);
}

TEST(Stall, NamesStageStepSampleAndQueues) {
  Graph::StallReport stall_report;
  stall_report.work = {{"decode_image", false, 12, 12.4, "'photos/cat/1.jpg'"}, {"read", true, 13, 3, "2 of 8"}};
  stall_report.queued = {{"augment", "batch", 100, 5, 3}};
  stall_report.waiting_for = Graph::WaitingFor::batch;
  stall_report.step = 12;
  EXPECT_MESSAGE(text_of(stall_report, "train"));
}

TEST(Stall, SaysWhatIsWaitedForWhereNoThreadWorks) {
  Graph::StallReport stall_report;
  stall_report.step = 4;
  stall_report.waiting_for = Graph::WaitingFor::step;
  EXPECT_MESSAGE(text_of(stall_report, "train"));
  stall_report.waiting_for = Graph::WaitingFor::others;
  EXPECT_MESSAGE(text_of(stall_report, "train"));
  stall_report.waiting_for = Graph::WaitingFor::run;
  EXPECT_MESSAGE(text_of(stall_report, "train"));
  stall_report.reading = 2;
  EXPECT_MESSAGE(text_of(stall_report, "train"));
}

TEST(Stall, OfManyThreadsNamesThoseThatAreLongestAtIt) {
  Graph::StallReport stall_report;
  for (int i = 0; i < 5; ++i) stall_report.work.push_back({"s", false, 0, 9.0 - i, ""});
  EXPECT_MESSAGE(text_of(stall_report, "train"));
}

}  // namespace
}  // namespace millrace
