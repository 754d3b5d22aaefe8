#include <gtest/gtest.h>

#include "loss_fixture.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::losses {
namespace {

std::shared_ptr<const Loss> binary_loss_of_pixels(const std::vector<double>& positive) {
  return testkit::make_loss("pixel_binary_cross_entropy", positive.empty() ? Value() : list_table("positive_weight", positive));
}

TEST(PixelBinaryCrossEntropy, StaysFiniteForLargeOutputs) {
  LossTrial trial(binary_loss_of_pixels({}), {2, 1, 2}, 1);
  trial.outputs = {1e4F, -1e4F, 1e4F, -1e4F};
  trial.targets = {0, 1};
  EXPECT_FLOAT_EQ(static_cast<float>(trial.run()[kLoss]), 1e4F);
  EXPECT_EQ(trial.gradient, (std::vector<float>{0, 0, 0.5F, -0.5F}));
}

TEST(PixelBinaryCrossEntropy, CountsThePixelsThatHaveAClass) {
  const Ref<Batch> batch = testkit::make_batch(2, {2, 3, 3});
  batch->target.kind = TargetSpec::Kind::classes;
  std::vector<std::uint8_t> targets = {0, 1, 2, 255, 1, 1, 2, 2, 0, 0, 0, 255};
  batch->targets = targets.data();
  EXPECT_EQ(binary_loss_of_pixels({1, 10, 100})->weight(*batch, {0, 2}, 6), 5 + 5);
}

TEST(PixelBinaryCrossEntropy, RefusesWeightsThatDoNotFit) {
  LossSetting setting;
  setting.output = {3, 8, 8};
  setting.window = {8, 8, 3};
  setting.target.kind = TargetSpec::Kind::classes;
  setting.target.classes.fill(255);
  setting.target.classes[4] = 2;
  EXPECT_NO_THROW(check_loss(*binary_loss_of_pixels({1, 2, 3}), setting));
  EXPECT_MESSAGE(testkit::error_of([&] { check_loss(*binary_loss_of_pixels({1, 2}), setting); }).what());
  EXPECT_THROW(binary_loss_of_pixels({-1}), Error);
  EXPECT_THROW(binary_loss_of_pixels({0}), Error);
}

}  // namespace
}  // namespace millrace::losses
