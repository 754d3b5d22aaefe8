#include <gtest/gtest.h>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

TEST(L1, IsTheMeanOverAllNumbers) {
  for (const Shape& shape : {Shape{5}, Shape{3, 4, 6}}) {
    LossTrial trial(testkit::make_loss("l1"), shape, 4);
    trial.divisor = 4;
    trial.outputs[3] = trial.targets[3];
    const std::vector<double> sums = trial.run();
    const auto size = static_cast<double>(trial.outputs.size()), channels = static_cast<double>(shape[0]);
    double distances = 0;
    for (std::size_t i = 0; i < trial.outputs.size(); ++i) {
      const double far = static_cast<double>(trial.outputs[i]) - static_cast<double>(trial.targets[i]);
      distances += std::abs(far);
      ASSERT_FLOAT_EQ(trial.gradient[i], static_cast<float>(((far > 0) - (far < 0)) / (4 * channels))) << i;
    }
    EXPECT_NEAR(sums[kLoss] / sums[kWeight], distances / size, 1e-6 * distances / size);
  }
}

}  // namespace
}  // namespace millrace::losses
