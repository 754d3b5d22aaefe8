#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

constexpr std::size_t kCorrect = testkit::kCorrect, kCorrect5 = testkit::kCorrect5;

// By the definition, in double.
double row_loss(const LossTrial& trial, std::size_t row, double smoothing) {
  const auto classes = static_cast<std::size_t>(trial.shape[0]);
  const float* const outputs = trial.outputs.data() + row * classes;
  double sum = 0, loss = 0;
  for (std::size_t j = 0; j < classes; ++j) sum += std::exp(static_cast<double>(outputs[j]));
  for (std::size_t j = 0; j < classes; ++j) {
    const double share = static_cast<double>(trial.shares[row]);
    const double named = (trial.labels[row] == static_cast<float>(j) ? share : 0) +
                         (share < 1 && trial.seconds[row] == static_cast<float>(j) ? 1 - share : 0);
    const double target = named * (1 - smoothing) + smoothing / static_cast<double>(classes);
    loss -= target * (static_cast<double>(outputs[j]) - std::log(sum));
  }
  return static_cast<double>(trial.weights[row]) * loss;
}

// The place of the label that counts when the row is sorted from the largest; equal ones keep their order.
std::size_t rank(const LossTrial& trial, std::size_t row) {
  const auto classes = static_cast<std::size_t>(trial.shape[0]);
  std::vector<std::size_t> order(classes);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return trial.outputs[row * classes + a] > trial.outputs[row * classes + b]; });
  const auto named = static_cast<std::size_t>(trial.shares[row] < 0.5F ? trial.seconds[row] : trial.labels[row]);
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), named) - order.begin());
}

TEST(CrossEntropy, MatchesTheDefinition) {
  for (const std::int64_t classes : {1, 3, 10, 20, 1000}) {
    for (const double smoothing : {0.0, 0.2}) {
      for (const bool mixed : {false, true}) {
        LossTrial trial(testkit::cross_entropy(smoothing), {classes}, 12);
        for (float& value : trial.outputs) value = std::round(2 * value) / 2;  // many are equal
        for (std::size_t row = 0; row < 12; ++row) {
          if (mixed) trial.shares[row] = static_cast<float>(row % 5) / 4;
          trial.weights[row] = static_cast<float>(1 + row % 3);
        }
        const std::vector<double> sums = trial.run();
        double loss = 0, weight = 0, correct = 0, correct5 = 0;
        for (std::size_t row = 0; row < 12; ++row) {
          const auto of_row = static_cast<double>(trial.weights[row]);
          loss += row_loss(trial, row, smoothing);
          weight += of_row;
          correct += rank(trial, row) < 1 ? of_row : 0;
          correct5 += rank(trial, row) < 5 ? of_row : 0;
        }
        EXPECT_NEAR(sums[kLoss], loss, 1e-6 * std::max(1.0, loss));
        EXPECT_EQ(sums[kWeight], weight);
        EXPECT_EQ(sums[kCorrect], correct);
        EXPECT_EQ(sums[kCorrect5], correct5);
        if (classes == 1 || classes > 100) continue;
        EXPECT_LT(trial.gradient_error(), 3e-3);
      }
    }
  }
}

TEST(CrossEntropy, CountsTheLabelWithTheLargerShareAsCorrect) {
  LossTrial trial(testkit::cross_entropy(), {3}, 1);
  trial.outputs = {1, 3, 2};
  trial.labels = {0};
  trial.seconds = {1};
  const auto correct = [&](float share) {
    trial.shares = {share};
    return trial.run()[kCorrect];
  };
  EXPECT_EQ(correct(0.4F), 1);
  EXPECT_EQ(correct(0.5F), 0);
  EXPECT_EQ(correct(0.6F), 0);
}

TEST(CrossEntropy, StaysFiniteForLargeOutputs) {
  LossTrial trial(testkit::cross_entropy(), {3}, 1);
  trial.outputs = {1e30F, -1e30F, 0};
  trial.labels = {0};
  EXPECT_EQ(trial.run()[kLoss], 0);
  EXPECT_EQ(trial.gradient, std::vector<float>(3, 0.0F));
}

TEST(CrossEntropy, CountsTiesAsIfTheEarlierClassCameFirst) {
  LossTrial trial(testkit::cross_entropy(), {7}, 1);
  trial.outputs.assign(7, 1.0F);
  const auto count = [&](float label, std::size_t sum) {
    trial.labels = {label};
    return trial.run()[sum];
  };
  EXPECT_EQ(count(0, kCorrect), 1);
  EXPECT_EQ(count(1, kCorrect), 0);
  EXPECT_EQ(count(4, kCorrect5), 1);
  EXPECT_EQ(count(5, kCorrect5), 0);
}

TEST(CrossEntropy, ADivergedNetworkIsNeverRight) {
  LossTrial trial(testkit::cross_entropy(), {10}, 2);
  trial.outputs.assign(20, std::nanf(""));
  std::fill_n(trial.outputs.begin(), 9, 0.0F);
  trial.outputs[0] = 100;
  trial.labels = {0, 0};
  const std::vector<double> sums = trial.run();
  EXPECT_TRUE(std::isnan(sums[kLoss]));
  EXPECT_EQ(sums[kCorrect], 0);
}

}  // namespace
}  // namespace millrace::losses
