#include "run/run_meter.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// The meter of a run that began with step 12, in epochs of 10 steps of 8 samples, and has done 17 steps.
SavedState state_of(std::uint64_t batch_size) {
  SavedState state;
  state.step = 17;
  state.epoch = 1;
  state.step_of_epoch = 7;
  state.first_step = 12;
  state.batch_size = batch_size;
  return state;
}

TEST(FirstStepBefore, IsTheCheckpointsWhereBatchesAreAsLarge) {
  EXPECT_EQ(first_step_before(state_of(8), 8, 10), 12U);
  EXPECT_EQ(first_step_before(state_of(0), 8, 10), 12U) << "older checkpoints do not know";
}

TEST(FirstStepBefore, IsCountedInBatchesOfTodaysSize) {
  EXPECT_EQ(first_step_before(state_of(8), 4, 20), 24U);  // 2 steps of 8 are 4 of 4, in an epoch that begins with step 20
  EXPECT_EQ(first_step_before(state_of(8), 80, 1), 1U);
}

TEST(FirstStepBefore, OfAnEpochThatTheRunHasBegunIsItsFirst) {
  SavedState state = state_of(8);
  state.first_step = 10;
  EXPECT_EQ(first_step_before(state, 4, 20), 0U) << "all of the epoch is the run's";
}

}  // namespace
}  // namespace millrace
