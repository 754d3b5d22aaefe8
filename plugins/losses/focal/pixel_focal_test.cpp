#include <gtest/gtest.h>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

Value focal_parameters(double gamma, const std::vector<double>& of_class) {
  Value parameters = list_table("class_weights", of_class);
  parameters.set("gamma", Value(gamma));
  return parameters;
}

TEST(PixelFocal, MatchesTheDefinition) {
  const std::vector<double> of_class = {0.5, 2, 1};
  for (const double gamma : {0.5, 2.0, 5.0}) {
    LossTrial trial(testkit::make_loss("pixel_focal", focal_parameters(gamma, of_class)), {3, 7, 6}, 4);
    trial.weights = {1, 2, 0, 1};
    double loss = 0, weight = 0;
    for (std::size_t place = 0; place < trial.targets.size(); ++place) {
      const auto of_sample = static_cast<double>(trial.weights[place / 42]);
      if (trial.targets[place] < 0 || of_sample == 0) continue;
      const auto label = static_cast<std::size_t>(trial.targets[place]);
      double total = 0;
      for (std::size_t c = 0; c < 3; ++c) total += std::exp(static_cast<double>(trial.outputs[3 * place + c]));
      const double p = std::exp(static_cast<double>(trial.outputs[3 * place + label])) / total;
      loss -= of_sample * of_class[label] * std::pow(1 - p, gamma) * std::log(p);
      weight += of_sample * of_class[label];
    }
    const std::vector<double> sums = trial.run();
    EXPECT_NEAR(sums[kLoss], loss, 1e-5 * loss) << gamma;
    EXPECT_NEAR(sums[kWeight], weight, 1e-6 * weight) << gamma;
    EXPECT_LT(trial.gradient_error(), 3e-3) << gamma;
  }
}

TEST(PixelFocal, OfGammaZeroIsPixelCrossEntropy) {
  const std::vector<double> of_class = {0.5, 2, 1};
  LossTrial focal(testkit::make_loss("pixel_focal", focal_parameters(0, of_class)), {3, 9, 8}, 3);
  LossTrial plain(testkit::make_loss("pixel_cross_entropy", list_table("class_weights", of_class)), {3, 9, 8}, 3);
  const std::vector<double> sums = focal.run(), expected = plain.run();
  ASSERT_EQ(sums.size(), expected.size());
  for (std::size_t s = 0; s < sums.size(); ++s) EXPECT_NEAR(sums[s], expected[s], 1e-5 * expected[s]) << s;
  for (std::size_t i = 0; i < focal.gradient.size(); ++i) EXPECT_NEAR(focal.gradient[i], plain.gradient[i], 1e-6) << i;
}

TEST(PixelFocal, StaysFiniteForLargeOutputs) {
  LossTrial trial(testkit::make_loss("pixel_focal"), {3, 1, 2}, 1);
  trial.outputs = {1e30F, -1e30F, 0, 1e30F, -1e30F, 0};
  trial.targets = {0, 2};
  EXPECT_FLOAT_EQ(static_cast<float>(trial.run()[kLoss]), 1e30F);
  EXPECT_EQ(trial.gradient, (std::vector<float>{0, 0, 0, 1, 0, -1}));
}

}  // namespace
}  // namespace millrace::losses
