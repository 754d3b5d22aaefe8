#include <gtest/gtest.h>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

LossTrial focal_trial(const std::string& name, double gamma, const std::vector<double>& of_class) {
  Value parameters = list_table("class_weights", of_class);
  if (name == "focal") parameters.set("gamma", Value(gamma));
  LossTrial trial(testkit::make_loss(name, parameters), {static_cast<std::int64_t>(of_class.size())}, 12);
  for (std::size_t row = 0; row < 12; ++row) {
    trial.shares[row] = row < 5 ? static_cast<float>(row) / 4 : 1.0F;
    trial.weights[row] = static_cast<float>(1 + row % 2);
  }
  return trial;
}

TEST(Focal, OfGammaZeroIsCrossEntropy) {
  const std::vector<double> of_class = {0.5, 2, 1};
  LossTrial focal = focal_trial("focal", 0, of_class), plain = focal_trial("cross_entropy", 0, of_class);
  const std::vector<double> sums = focal.run(), expected = plain.run();
  ASSERT_EQ(sums.size(), expected.size());
  for (std::size_t s = 0; s < sums.size(); ++s) EXPECT_NEAR(sums[s], expected[s], 1e-6 * expected[s]) << s;
  for (std::size_t i = 0; i < focal.gradient.size(); ++i) EXPECT_NEAR(focal.gradient[i], plain.gradient[i], 1e-6) << i;
}

TEST(Focal, StaysFiniteForLargeOutputs) {
  for (const double gamma : {0.0, 0.5, 2.0}) {
    LossTrial trial(testkit::make_loss("focal", testkit::table({{"gamma", Value(gamma)}})), {3}, 1);
    trial.outputs = {1e30F, -1e30F, 0};
    trial.labels = {0};
    EXPECT_EQ(trial.run()[kLoss], 0) << gamma;
    EXPECT_EQ(trial.gradient, std::vector<float>(3, 0.0F)) << gamma;
    trial.labels = {2};
    EXPECT_FLOAT_EQ(static_cast<float>(trial.run()[kLoss]), 1e30F) << gamma;
    EXPECT_EQ(trial.gradient, (std::vector<float>{1, 0, -1})) << gamma;
  }
}

}  // namespace
}  // namespace millrace::losses
