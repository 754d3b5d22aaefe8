#include "schedule.h"

#include <gtest/gtest.h>

namespace millrace::gpu {
namespace {

const std::vector<PartTime> kParts = {{"first", 1, 10}, {"second", 2, 10}, {"third", 1, 30}};

TEST(Schedule, GivesEachPartItsShare) {
  const Schedule schedule(kParts, 400);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(0, 0), 100);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(1, 100), 200);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(2, 300), 100);
}

TEST(Schedule, PassesUnusedTimeOn) {
  const Schedule schedule(kParts, 400);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(1, 20), 280);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(2, 40), 360);
}

TEST(Schedule, LeavesOutWhatWouldShowNothing) {
  const Schedule schedule(kParts, 400);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(1, 295), 0) << "5 seconds are left, 10 are needed";
  EXPECT_DOUBLE_EQ(schedule.seconds_for(2, 370), 30);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(2, 371), 0);
  EXPECT_DOUBLE_EQ(schedule.seconds_for(2, 500), 0);
}

}  // namespace
}  // namespace millrace::gpu
