#include <gtest/gtest.h>

#include "loss_fixture.h"
#include "millrace/error.h"

namespace millrace::losses {
namespace {

TEST(Huber, IsTheMeanOverAllNumbers) {
  for (const double delta : {0.25, 1.0, 100.0}) {
    for (const Shape& shape : {Shape{5}, Shape{3, 4, 6}}) {
      LossTrial trial(testkit::make_loss("huber", testkit::table({{"delta", Value(delta)}})), shape, 4);
      const std::vector<double> sums = trial.run();
      double total = 0;
      for (std::size_t i = 0; i < trial.outputs.size(); ++i) {
        const double far = std::abs(static_cast<double>(trial.outputs[i]) - static_cast<double>(trial.targets[i]));
        total += far < delta ? far * far / 2 : delta * (far - delta / 2);
      }
      const double mean = total / static_cast<double>(trial.outputs.size());
      EXPECT_NEAR(sums[kLoss] / sums[kWeight], mean, 1e-6 * mean) << delta;
    }
  }
}

TEST(Huber, ADeltaOfZeroIsAMistake) { EXPECT_THROW(testkit::make_loss("huber", testkit::table({{"delta", Value(0.0)}})), Error); }

}  // namespace
}  // namespace millrace::losses
