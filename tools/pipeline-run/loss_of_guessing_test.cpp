#include "loss_of_guessing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testkit/harness.h"
#include "testkit/losses.h"

namespace millrace {
namespace {

TEST(LossOfGuessing, IsThatOfOutputsThatPreferNoClass) {
  const Value weights = testkit::table({{"class_weights", Value(Array{Value(0.5), Value(2.0), Value(1.0)})}});
  const auto guess = [](const std::string& loss, std::int64_t classes, const Value& parameters = {}) {
    return loss_of_guessing(testkit::make_loss(loss, parameters), classes).value_or(-1);
  };
  for (const std::int64_t classes : {2, 10, 1000, 3000}) {
    EXPECT_NEAR(guess("cross_entropy", classes), std::log(classes), 1e-5) << classes;
    EXPECT_NEAR(guess("focal", classes), std::pow(1 - 1.0 / static_cast<double>(classes), 2) * std::log(classes), 1e-5)
        << classes;
  }
  EXPECT_NEAR(guess("cross_entropy", 3, weights), std::log(3), 1e-6);
  EXPECT_NEAR(guess("pixel_cross_entropy", 32), std::log(32), 1e-5);
  EXPECT_NEAR(guess("pixel_cross_entropy", 3, weights), std::log(3), 1e-6);
  EXPECT_NEAR(guess("pixel_binary_cross_entropy", 4), std::log(2), 1e-6);
  const double shared = 2.0 / 4, both = 1 + 4.0 / 4, smooth = 1;  // sum over four classes
  EXPECT_NEAR(guess("dice", 4), 1 - (shared + smooth) / (both + smooth), 1e-6);
  EXPECT_EQ(guess("mean_squared_error", 4), -1);
  EXPECT_EQ(guess("cross_entropy", 1), -1) << "it is 0";
}

}  // namespace
}  // namespace millrace
