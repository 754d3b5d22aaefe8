#include "kernels/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels_fixture.h"
#include "millrace/error.h"

namespace millrace::cpu {
namespace {

double reference_loss(const std::vector<float>& logits, std::int64_t classes, std::int64_t row, std::int32_t label,
                      double smoothing, std::int64_t nudged = -1, double nudge = 0) {
  const auto at = [&](std::int64_t j) {
    return logits[static_cast<std::size_t>(row * classes + j)] + (j == nudged ? nudge : 0.0);
  };
  double sum = 0, loss = 0;
  for (std::int64_t j = 0; j < classes; ++j) sum += std::exp(at(j));
  for (std::int64_t j = 0; j < classes; ++j) {
    const double target = (j == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
    loss -= target * (at(j) - std::log(sum));
  }
  return loss;
}

TEST(CrossEntropy, MatchesTheReferenceAndItsGradientFiniteDifferences) {
  constexpr std::int64_t kRows = 9, kClasses = 7;
  const std::vector<float> logits = random_values(kRows * kClasses, 1, 0, 3);
  const std::vector<std::int32_t> labels = {0, 1, 2, 3, 4, 5, 6, 0, -1};
  const std::vector<float> weights = {1, 1, 0.5F, 1, 1, 1, 2, 1, 0};  // the last has no label and no weight
  for (const double smoothing : {0.0, 0.2}) {
    std::vector<float> gradient(logits.size(), 7.0F);
    const StepSums sums =
        cross_entropy({logits.data(), labels.data(), weights.data(), kRows, kClasses, smoothing, 4, gradient.data()});
    double loss = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      loss += weights[r] * reference_loss(logits, kClasses, row, labels[r], smoothing);
      for (std::int64_t j = 0; j < kClasses; ++j) {
        const double up = reference_loss(logits, kClasses, row, labels[r], smoothing, j, 1e-5);
        const double down = reference_loss(logits, kClasses, row, labels[r], smoothing, j, -1e-5);
        EXPECT_NEAR(gradient[static_cast<std::size_t>(row * kClasses + j)], weights[r] / 4 * (up - down) / 2e-5, 1e-6);
      }
    }
    EXPECT_NEAR(sums.loss, loss, 1e-5);
    EXPECT_DOUBLE_EQ(sums.weight, 8.5);
  }
}

TEST(CrossEntropy, OfAMixedImageIsThatOfBothLabelsByTheirShares) {
  constexpr std::int64_t kRows = 5, kClasses = 6;
  const std::vector<float> logits = random_values(kRows * kClasses, 1, 0, 3);
  const std::vector<std::int32_t> labels = {0, 1, 2, 3, 4}, seconds = {5, 1, 0, 4, -1};
  const std::vector<float> shares = {0.25F, 0.5F, 0.75F, 0, 1}, weights = {1, 1, 0.5F, 2, 1};
  for (const double smoothing : {0.0, 0.2}) {
    std::vector<float> gradient(logits.size());
    CrossEntropy arguments{logits.data(), labels.data(), weights.data(), kRows, kClasses, smoothing, 3, gradient.data()};
    arguments.second_labels = seconds.data();
    arguments.shares = shares.data();
    const StepSums sums = cross_entropy(arguments);
    double loss = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const auto at = [&](std::int64_t nudged, double nudge) {
        const double first = reference_loss(logits, kClasses, row, labels[r], smoothing, nudged, nudge);
        const double second = shares[r] < 1 ? reference_loss(logits, kClasses, row, seconds[r], smoothing, nudged, nudge) : 0;
        return shares[r] * first + (1 - shares[r]) * second;
      };
      loss += weights[r] * at(-1, 0);
      for (std::int64_t j = 0; j < kClasses; ++j) {
        const double slope = (at(j, 1e-5) - at(j, -1e-5)) / 2e-5;
        EXPECT_NEAR(gradient[static_cast<std::size_t>(row * kClasses + j)], weights[r] / 3 * slope, 1e-6);
      }
    }
    EXPECT_NEAR(sums.loss, loss, 1e-5);
  }
}

TEST(CrossEntropy, CountsTheLabelWithTheLargerShareAsCorrect) {
  const std::vector<float> logits = {1, 3, 2};
  const std::int32_t label = 0, second = 1;
  const auto correct = [&](float share) {
    CrossEntropy arguments{logits.data(), &label, nullptr, 1, 3};
    arguments.second_labels = &second;
    arguments.shares = &share;
    return cross_entropy(arguments).correct;
  };
  EXPECT_EQ(correct(0.4F), 1);
  EXPECT_EQ(correct(0.5F), 0);
  EXPECT_EQ(correct(0.6F), 0);
}

TEST(CrossEntropy, AShareOfOneChangesNotABit) {
  constexpr std::int64_t kRows = 4, kClasses = 6;
  const std::vector<float> logits = random_values(kRows * kClasses, 1, 0, 3), shares(kRows, 1.0F);
  const std::vector<std::int32_t> labels = {0, 5, 2, 3};
  std::vector<float> plain(logits.size()), mixed(logits.size());
  const StepSums one = cross_entropy({logits.data(), labels.data(), nullptr, kRows, kClasses, 0.1, 4, plain.data()});
  CrossEntropy arguments{logits.data(), labels.data(), nullptr, kRows, kClasses, 0.1, 4, mixed.data()};
  arguments.shares = shares.data();
  EXPECT_EQ(cross_entropy(arguments).loss, one.loss);
  EXPECT_EQ(mixed, plain);
}

TEST(CrossEntropy, StaysFiniteForLargeLogits) {
  const std::vector<float> logits = {1e30F, -1e30F, 0};
  const std::int32_t label = 0;
  std::vector<float> gradient(3);
  const StepSums sums = cross_entropy({logits.data(), &label, nullptr, 1, 3, 0, 1, gradient.data()});
  EXPECT_EQ(sums.loss, 0);
  EXPECT_EQ(gradient, std::vector<float>(3, 0.0F));
}

TEST(CrossEntropy, CountsTiesAsIfTheEarlierClassCameFirst) {
  const std::vector<float> logits = {1, 1, 1, 1, 1, 1, 1};
  const auto count = [&](std::int32_t label) { return cross_entropy({logits.data(), &label, nullptr, 1, 7}); };
  EXPECT_EQ(count(0).correct, 1);
  EXPECT_EQ(count(1).correct, 0);
  EXPECT_EQ(count(4).correct5, 1);
  EXPECT_EQ(count(5).correct5, 0);
}

TEST(CrossEntropy, CountsNothingAsCorrectWhenLogitsAreNan) {
  const std::vector<float> logits = {std::nanf(""), std::nanf(""), std::nanf("")};
  const std::int32_t label = 0;
  EXPECT_EQ(cross_entropy({logits.data(), &label, nullptr, 1, 3}).correct, 0);
}

TEST(CrossEntropy, NamesALabelThatTheNetworkHasNoOutputFor) {
  const std::vector<float> logits = {0, 0, 0};
  const std::int32_t label = 3;
  try {
    cross_entropy({logits.data(), &label, nullptr, 1, 3});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_STREQ(error.what(), "row 0 of the batch has label 3, but the network's output has 3 classes (0 to 2)");
  }
}

TEST(CrossEntropy, IsTheSameForAnyNumberOfThreads) {
  constexpr std::int64_t kRows = 301, kClasses = 100;
  const std::vector<float> logits = random_values(kRows * kClasses, 1);
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % kClasses);
  expect_same_for_any_team([&] {
    std::vector<float> gradient(logits.size());
    const StepSums sums = cross_entropy({logits.data(), labels.data(), nullptr, kRows, kClasses, 0.1, 3, gradient.data()});
    return std::tuple(gradient, sums.loss, sums.correct, sums.correct5);
  });
}

}  // namespace
}  // namespace millrace::cpu
