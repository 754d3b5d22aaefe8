#include <gtest/gtest.h>

#include "loss_fixture.h"
#include "millrace/batch.h"
#include "millrace/error.h"

namespace millrace::losses {
namespace {

std::shared_ptr<const Loss> binary_loss_of_pixels(const std::vector<double>& positive) {
  return testkit::make_loss("pixel_binary_cross_entropy", positive.empty() ? Value() : list_table("positive_weight", positive));
}

TEST(PixelBinaryCrossEntropy, MatchesTheDefinition) {
  for (const std::vector<double>& positive : std::vector<std::vector<double>>{{}, {3}, {2, 0.5, 1}}) {
    LossTrial trial(binary_loss_of_pixels(positive), {3, 7, 6}, 4);
    trial.weights = {1, 2, 0, 1};
    double loss = 0, weight = 0, correct = 0;
    for (std::size_t place = 0; place < trial.targets.size(); ++place) {
      const auto of_sample = static_cast<double>(trial.weights[place / 42]);
      if (trial.targets[place] < 0 || of_sample == 0) continue;
      const auto label = static_cast<std::size_t>(trial.targets[place]);
      std::size_t largest = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const double p = 1 / (1 + std::exp(-static_cast<double>(trial.outputs[3 * place + c])));
        const double own = positive.empty() ? 1 : positive[positive.size() == 1 ? 0 : c];
        loss -= of_sample / 3 * (c == label ? own * std::log(p) : std::log(1 - p));
        if (trial.outputs[3 * place + c] > trial.outputs[3 * place + largest]) largest = c;
      }
      weight += of_sample;
      correct += largest == label ? of_sample : 0;
    }
    const std::vector<double> sums = trial.run();
    EXPECT_NEAR(sums[kLoss], loss, 1e-5 * loss);
    EXPECT_NEAR(sums[kWeight], weight, 1e-6);
    EXPECT_EQ(trial.loss->info().figures.at(1).name, "accuracy");
    EXPECT_NEAR(trial.loss->info().figures.at(1).finish(sums), correct / weight, 1e-9);
    EXPECT_LT(trial.gradient_error(), 3e-3);
  }
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
  try {
    check_loss(*binary_loss_of_pixels({1, 2}), setting);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "loss 'pixel_binary_cross_entropy': positive_weight: 2 numbers, and the network's output has 3 channels");
  }
  EXPECT_THROW(binary_loss_of_pixels({-1}), Error);
  EXPECT_THROW(binary_loss_of_pixels({0}), Error);
}

}  // namespace
}  // namespace millrace::losses
