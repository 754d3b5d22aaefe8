#include <gtest/gtest.h>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

TEST(MeanSquaredError, IsTheMeanOverAllNumbers) {
  for (const Shape& shape : {Shape{5}, Shape{3, 4, 6}}) {
    LossTrial trial(testkit::make_loss("mean_squared_error"), shape, 4);
    const std::vector<double> sums = trial.run();
    double squares = 0;
    for (std::size_t i = 0; i < trial.outputs.size(); ++i) {
      squares += std::pow(static_cast<double>(trial.outputs[i]) - static_cast<double>(trial.targets[i]), 2);
    }
    const double mean = squares / static_cast<double>(trial.outputs.size());
    EXPECT_NEAR(sums[kLoss] / sums[kWeight], mean, 1e-6 * mean);
    EXPECT_NEAR(trial.loss->info().figures.at(1).finish(sums), std::sqrt(mean), 1e-6);
  }
}

}  // namespace
}  // namespace millrace::losses
