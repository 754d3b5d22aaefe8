#include "prepare/step_range.h"

#include <gtest/gtest.h>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr std::uint64_t kAnEpoch = 10;

Pipeline pipeline_of(double epochs, std::uint64_t max_steps = 0) {
  Pipeline pipeline;
  pipeline.run.epochs = epochs;
  pipeline.stop.max_steps = max_steps;
  return pipeline;
}

std::string range_text(const Pipeline& pipeline, const RequestedSteps& asked, bool trains = true) {
  try {
    const StepRange range = choose_steps(pipeline, {"train", trains, kAnEpoch}, asked);
    return std::to_string(range.first) + ".." + std::to_string(range.end) + " of " + std::to_string(range.total);
  } catch (const Error& error) {
    return error.what();
  }
}

bool refuses(const Pipeline& pipeline, const RequestedSteps& asked) {
  return range_text(pipeline, asked).find("cannot begin with") != std::string::npos;
}

TEST(StepRange, IsOfWholeAndBrokenEpochs) {
  EXPECT_EQ(range_text(pipeline_of(2), {}), "0..20 of 20");
  EXPECT_EQ(range_text(pipeline_of(1.25), {}), "0..13 of 13");
  EXPECT_EQ(range_text(pipeline_of(2), {.from = {1, 3}}), "13..20 of 20");
}

TEST(StepRange, EndsEarlyAsOptionsAndTheFileSay) {
  EXPECT_EQ(range_text(pipeline_of(2), {.from = {1, 0}, .most = 4}), "10..14 of 20") << "schedules know of all steps";
  EXPECT_EQ(range_text(pipeline_of(2, 15), {}), "0..15 of 20");
  EXPECT_EQ(range_text(pipeline_of(2, 15), {}, false), "0..20 of 20") << "[stop] is for training";
}

TEST(StepRange, OfAGraphThatIsNamedAndDoesNotTrainIsOneEpoch) {
  EXPECT_EQ(range_text(pipeline_of(5), {.is_named = true}, false), "0..10 of 10");
  EXPECT_EQ(range_text(pipeline_of(5), {.is_named = true}, true), "0..50 of 50");
}

TEST(StepRange, CannotBeginBehindItsEndUnlessARunIsResumedThere) {
  EXPECT_TRUE(refuses(pipeline_of(2), {.from = {0, 10}}));
  EXPECT_TRUE(refuses(pipeline_of(2), {.from = {2, 0}}));
  EXPECT_EQ(range_text(pipeline_of(2), {.from = {2, 0}, .is_resumed = true}), "20..20 of 20");
  EXPECT_TRUE(refuses(pipeline_of(2), {.from = {2, 1}, .is_resumed = true}));
  EXPECT_TRUE(refuses(pipeline_of(2, 15), {.from = {1, 5}}));
  EXPECT_EQ(range_text(pipeline_of(2, 15), {.from = {1, 5}, .is_resumed = true}), "15..15 of 20");
}

TEST(StepRange, OfBatchesOfAnotherSizeMayBeginAtTheEndOfAnEpoch) {
  EXPECT_EQ(range_text(pipeline_of(2), {.from = {0, 30}, .is_resumed = true, .step_with_other_batches = 10}), "10..20 of 20");
}

}  // namespace
}  // namespace millrace
