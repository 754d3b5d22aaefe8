#include <gtest/gtest.h>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

TEST(MeanSquaredError, TellsTheRatioOfPeakAndError) {
  for (const double peak : {1.0, 4.0}) {
    LossTrial trial(testkit::make_loss("mean_squared_error", testkit::table({{"peak", Value(peak)}})), {1, 4, 6}, 3);
    trial.weights = {1, 0, 1};
    for (std::size_t i = 0; i < trial.outputs.size(); ++i) trial.outputs[i] = trial.targets[i] + (i % 2 == 0 ? 0.1F : -0.1F);
    const std::vector<double> sums = trial.run();
    const LossFigure& psnr = trial.loss->info().figures.at(2);
    EXPECT_EQ(psnr.name, "psnr");
    EXPECT_NEAR(psnr.finish(sums), 20 * std::log10(peak / 0.1), 1e-4);
  }
}

}  // namespace
}  // namespace millrace::losses
