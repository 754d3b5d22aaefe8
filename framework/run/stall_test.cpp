#include "run/stall.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(text_of(stall_report, "train"),
            "[train.decode_image] works on sample 'photos/cat/1.jpg' of step 13 for 12.4 s; [train.read] reads sample 2 of 8 of "
            "step 14 "
            "for 3.0 s; 3 packets wait before [train.batch]; step 13 waits for its batch");
}

TEST(Stall, SaysWhatIsWaitedForWhereNoThreadWorks) {
  Graph::StallReport stall_report;
  stall_report.step = 4;
  stall_report.waiting_for = Graph::WaitingFor::step;
  EXPECT_EQ(text_of(stall_report, "train"), "step 5 is under way: on the devices, or in a stage that holds back its input");
  stall_report.waiting_for = Graph::WaitingFor::others;
  EXPECT_EQ(text_of(stall_report, "train"), "step 5 is complete here and waits for the other processes");
  stall_report.waiting_for = Graph::WaitingFor::run;
  EXPECT_EQ(text_of(stall_report, "train"), "the run holds up step 5");
  stall_report.reading = 2;
  EXPECT_EQ(text_of(stall_report, "train"), "2 threads are about to read; the run holds up step 5");
}

TEST(Stall, OfManyThreadsNamesThoseThatAreLongestAtIt) {
  Graph::StallReport stall_report;
  for (int i = 0; i < 5; ++i) stall_report.work.push_back({"s", false, 0, 9.0 - i, ""});
  EXPECT_EQ(text_of(stall_report, "train"),
            "[train.s] works on step 1 for 9.0 s; [train.s] works on step 1 for 8.0 s; [train.s] works on "
            "step 1 for 7.0 s; 2 more threads work; step 1 waits for its batch");
}

}  // namespace
}  // namespace millrace
