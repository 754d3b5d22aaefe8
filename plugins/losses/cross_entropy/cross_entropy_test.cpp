#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "loss_fixture.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::losses {
namespace {

constexpr std::size_t kCorrect = testkit::kCorrect, kCorrect5 = testkit::kCorrect5;

// By the definition, in double. `of_class`: weights of classes.
double row_loss(const LossTrial& trial, std::size_t row, double smoothing, const std::vector<double>& of_class = {}) {
  const auto classes = static_cast<std::size_t>(trial.shape[0]);
  const float* const outputs = trial.outputs.data() + row * classes;
  double sum = 0, loss = 0;
  for (std::size_t j = 0; j < classes; ++j) sum += std::exp(static_cast<double>(outputs[j]));
  for (std::size_t j = 0; j < classes; ++j) {
    const double share = static_cast<double>(trial.shares[row]);
    const double named = (trial.labels[row] == static_cast<float>(j) ? share : 0) +
                         (share < 1 && trial.seconds[row] == static_cast<float>(j) ? 1 - share : 0);
    const double target = named * (1 - smoothing) + smoothing / static_cast<double>(classes);
    const double weight = of_class.empty() ? 1 : of_class[j];
    loss -= weight * target * (static_cast<double>(outputs[j]) - std::log(sum));
  }
  return static_cast<double>(trial.weights[row]) * loss;
}

// The rank of the label when the row is sorted from the largest; equal ones keep their order.
std::size_t rank(const LossTrial& trial, std::size_t row) {
  const auto classes = static_cast<std::size_t>(trial.shape[0]);
  std::vector<std::size_t> order(classes);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return trial.outputs[row * classes + a] > trial.outputs[row * classes + b]; });
  const auto named = static_cast<std::size_t>(trial.shares[row] < 0.5F ? trial.seconds[row] : trial.labels[row]);
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), named) - order.begin());
}

// Also with more classes than a group has threads. A row that is not finite is right in no class, and predicts none.
TEST(CrossEntropy, AddsUpWhatBelongsToEachClassAndIsPredictedAsIt) {
  for (const std::int64_t classes : {2, 7, 300}) {
    for (const bool apart : {false, true}) {
      LossTrial trial(testkit::cross_entropy(0), {classes}, 40);
      const auto each = static_cast<std::size_t>(classes);
      std::vector<double> expected(3 * each);
      for (std::size_t row = 0; row < 40; ++row) {
        trial.shares[row] = row % 3 == 0 ? 0.25F : 1.0F;
        trial.weights[row] = static_cast<float>(row % 4);
        if (row % 9 == 0) trial.outputs[row * each + 1] = row % 2 == 0 ? NAN : HUGE_VALF;
        if (row % 5 == 0) trial.outputs[row * each + static_cast<std::size_t>(trial.labels[row])] = 9;
        if (trial.weights[row] == 0) trial.labels[row] = -1;
        if (trial.weights[row] == 0) continue;
        const auto label = static_cast<std::size_t>(trial.shares[row] < 0.5F ? trial.seconds[row] : trial.labels[row]);
        const auto weight = static_cast<double>(trial.weights[row]);
        expected[label] += weight;
        const float* const outputs = trial.outputs.data() + row * each;
        if (std::any_of(outputs, outputs + each, [](float value) { return !std::isfinite(value); })) continue;
        const auto predicted = static_cast<std::size_t>(std::max_element(outputs, outputs + each) - outputs);
        expected[each + predicted] += weight;
        if (predicted == label) expected[2 * each + label] += weight;
      }
      const std::vector<double> sums = trial.run(apart);
      EXPECT_EQ(std::vector<double>(sums.begin() + 5, sums.end()), expected) << classes;
    }
  }
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

TEST(CrossEntropy, WeighsClasses) {
  const std::vector<double> of_class = {0.5, 2, 0, 3};
  for (const double smoothing : {0.0, 0.2}) {
    for (const bool mixed : {false, true}) {
      Value parameters = list_table("class_weights", of_class);
      parameters.set("label_smoothing", Value(smoothing));
      LossTrial trial(testkit::make_loss("cross_entropy", parameters), {4}, 12);
      double loss = 0, weight = 0, images = 0;
      for (std::size_t row = 0; row < 12; ++row) {
        if (mixed) trial.shares[row] = static_cast<float>(row % 5) / 4;
        trial.weights[row] = static_cast<float>(row % 3);
        const double share = trial.shares[row], of_row = trial.weights[row];
        const auto label = static_cast<std::size_t>(trial.labels[row]), second = static_cast<std::size_t>(trial.seconds[row]);
        loss += row_loss(trial, row, smoothing, of_class);
        weight += of_row * (share * of_class[label] + (1 - share) * of_class[second]);
        images += of_row;
      }
      const std::vector<double> sums = trial.run();
      EXPECT_NEAR(sums[kLoss], loss, 1e-6 * loss);
      EXPECT_NEAR(sums[kWeight], weight, 1e-6 * weight);
      EXPECT_EQ(trial.loss->info().figures.at(1).finish(sums), sums[kCorrect] / images);
      EXPECT_LT(trial.gradient_error(), 3e-3);
    }
  }
}

TEST(CrossEntropy, CountsTheWeightOfABatchAsItsKernelsDo) {
  const auto plain = testkit::cross_entropy(),
             weighted = testkit::make_loss("cross_entropy", list_table("class_weights", {1, 10, 100}));
  const Ref<Batch> batch = testkit::make_batch(4, {2, 2, 3});
  const std::vector<std::int32_t> labels = {2, 1, -1, 0};
  std::copy(labels.begin(), labels.end(), batch->labels);
  std::copy_n(std::vector<float>{1, 0.5F, 0, 1}.begin(), 4, batch->weights);
  batch->shares = nullptr;
  EXPECT_EQ(plain->weight(*batch, {0, 4}, 1), 2.5);
  EXPECT_EQ(weighted->weight(*batch, {0, 4}, 1), 100 + 0.5 * 10 + 1);
  EXPECT_EQ(weighted->weight(*batch, {1, 2}, 1), 0.5 * 10);
  std::vector<float> shares = {0.25F, 1, 0.5F, 1};
  std::vector<std::int32_t> seconds = {1, -1, 7, -1};
  batch->shares = shares.data();
  batch->second_labels = seconds.data();
  EXPECT_EQ(weighted->weight(*batch, {0, 4}, 1), 0.25 * 100 + 0.75 * 10 + 0.5 * 10 + 1);
  EXPECT_EQ(plain->weight(*batch, {0, 4}, 1), 2.5);
}

TEST(CrossEntropy, RefusesWeightsThatDoNotFit) {
  LossSetting setting;
  setting.output = {3};
  EXPECT_NO_THROW(check_loss(*testkit::make_loss("cross_entropy", list_table("class_weights", {1, 2, 0})), setting));
  EXPECT_MESSAGE(testkit::error_of([&] {
                   check_loss(*testkit::make_loss("cross_entropy", list_table("class_weights", {1, 2})), setting);
                 }).what());
  EXPECT_THROW(testkit::make_loss("cross_entropy", list_table("class_weights", {1, -1})), Error);
  EXPECT_THROW(testkit::make_loss("cross_entropy", list_table("class_weights", {0, 0, 0})), Error);
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
  EXPECT_EQ(sums[kCorrect5], 0);
  for (const float wrong : {std::nanf(""), HUGE_VALF}) {  // at a class's own place, and at another's
    for (const std::size_t at : {0U, 7U}) {
      trial.outputs.assign(20, 0.0F);
      trial.outputs[at] = wrong;
      const std::vector<double> one = trial.run();
      EXPECT_EQ(one[kCorrect], 1) << wrong << " at " << at << ": the other row is right";
      EXPECT_EQ(one[kCorrect5], 1) << wrong << " at " << at;
    }
  }
}

}  // namespace
}  // namespace millrace::losses
