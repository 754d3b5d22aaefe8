#include <gtest/gtest.h>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

Value focal_parameters(double gamma, const std::vector<double>& of_class) {
  Value parameters = list_table("class_weights", of_class);
  parameters.set("gamma", Value(gamma));
  return parameters;
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
