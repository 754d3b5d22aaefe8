#include "rows.h"

#include <algorithm>
#include <numeric>

#include "kernels_fixture.h"

namespace millrace::cuda {
namespace {

template <class T>
using Softmaxes = TypedElement<T>;
TYPED_TEST_SUITE(Softmaxes, ElementTypes);

template <class T>
double probability(const TestMap<T>& x, std::int64_t row, std::int64_t c) {
  double sum = 0;
  for (std::int64_t j = 0; j < x.channels(); ++j) sum += std::exp(x.at(row, j) - x.at(row, c));
  return 1 / sum;
}

TYPED_TEST(Softmaxes, AddUpToOneAndMayBeInPlace) {
  for (const std::int64_t channels : {1, 3, 20, 64, 1000}) {
    TestMap<TypeParam> x(3, channels), y(3, channels);
    x.fill(1, 80, 2);
    const TestMap<TypeParam> before = x;
    const auto expected = [&](auto row, auto c) { return probability(before, row, c); };
    Softmax<TypeParam> element{x.data(), y.data(), 3, channels};
    expect_names_its_memory(element, {x.bytes(), y.bytes()});
    y.expect_near(expected);
    element.y = x.data();
    run_on_threads(element, 5);
    x.expect_near(expected);
  }
}

TYPED_TEST(Softmaxes, BackwardWritesAddsAndMayBeInPlace) {
  for (const std::int64_t channels : {1, 3, 20, 64, 1000}) {
    TestMap<TypeParam> y(3, channels), dy(3, channels), dx(3, channels);
    y.fill(1, 0.3, 0.1);
    dy.fill(2);
    const TestMap<TypeParam> gradient = dy;
    const auto expected = [&](auto row, auto c) {
      double sum = 0;
      for (std::int64_t j = 0; j < channels; ++j) sum += y.at(row, j) * gradient.at(row, j);
      return y.at(row, c) * (gradient.at(row, c) - sum);
    };
    SoftmaxBackward<TypeParam> element{y.data(), dy.data(), dx.data(), 3, channels, false};
    expect_names_its_memory(element, {y.bytes(), dy.bytes(), dx.bytes()});
    dx.expect_near(expected);
    element.add = true;
    expect_names_its_memory(element, {y.bytes(), dy.bytes(), dx.bytes()});
    dx.expect_near([&](auto row, auto c) { return 2 * expected(row, c); });
    element.add = false;
    element.dx = dy.data();
    run_on_threads(element, 3);
    dy.expect_near(expected);
  }
}

// Some logits of which many are equal, labels, and everything that may be null.
struct Losses {
  Losses(std::int64_t rows, std::int64_t classes)
      : logits(rows, classes),
        gradient(rows, classes),
        labels(static_cast<std::size_t>(rows)),
        second(labels.size()),
        weights(labels.size(), 1),
        shares(labels.size(), 1),
        results(labels.size()) {
    logits.fill(1, 5, 2);
    logits.each([&](auto row, auto c) { logits.set(row, c, std::round(2 * logits.at(row, c)) / 2); });
    std::mt19937 generator(2);
    std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(classes - 1));
    for (std::size_t row = 0; row < labels.size(); ++row) {
      labels[row] = any(generator);
      second[row] = any(generator);
    }
  }
  void mix() {
    for (std::size_t row = 0; row < shares.size(); ++row) shares[row] = static_cast<float>(row % 5) / 4;
  }
  CrossEntropy element() {
    return {logits.data(),
            labels.data(),
            second.data(),
            weights.data(),
            shares.data(),
            gradient.data(),
            results.data(),
            logits.rows(),
            logits.channels(),
            0,
            1};
  }
  std::vector<std::span<std::byte>> memory() {
    return {logits.bytes(),    gradient.bytes(), bytes_of(labels), bytes_of(second),
            bytes_of(weights), bytes_of(shares), bytes_of(results)};
  }
  double target(std::size_t row, std::int64_t c, double smoothing) const {
    const auto share = static_cast<double>(shares[row]);
    const double named = (labels[row] == c ? share : 0) + (second[row] == c ? 1 - share : 0);
    return named * (1 - smoothing) + smoothing / static_cast<double>(logits.channels());
  }
  // The place of the label that counts when the row is sorted from the largest; equal ones keep their order.
  std::int64_t rank(std::size_t row) const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(logits.channels()));
    std::iota(order.begin(), order.end(), 0);
    const auto r = static_cast<std::int64_t>(row);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits.at(r, a) > logits.at(r, b); });
    const std::int64_t named = shares[row] < 0.5F ? second[row] : labels[row];
    return std::find(order.begin(), order.end(), named) - order.begin();
  }
  void expect_right(const CrossEntropy& element) {
    for (std::size_t row = 0; row < labels.size(); ++row) {
      const auto weight = static_cast<double>(weights[row]);
      double loss = 0;
      for (std::int64_t c = 0; weight != 0 && c < logits.channels(); ++c) {
        loss -= target(row, c, element.label_smoothing) * std::log(probability(logits, static_cast<std::int64_t>(row), c));
      }
      EXPECT_NEAR(results[row].loss, weight * loss, 2e-6 * std::max(1.0, loss));
      EXPECT_EQ(results[row].weight, weight);
      EXPECT_EQ(results[row].correct, weight != 0 && rank(row) < 1 ? weight : 0);
      EXPECT_EQ(results[row].correct5, weight != 0 && rank(row) < 5 ? weight : 0);
    }
    if (element.gradient == nullptr) return;
    gradient.expect_near(
        [&](auto r, auto c) {
          const auto row = static_cast<std::size_t>(r);
          const auto weight = static_cast<double>(weights[row]);
          return weight == 0
                     ? 0
                     : weight / element.normaliser * (probability(logits, r, c) - target(row, c, element.label_smoothing));
        },
        2e-7);
  }

  TestMap<float> logits, gradient;
  std::vector<std::int32_t> labels, second;
  std::vector<float> weights, shares;
  std::vector<RowLoss> results;
};

TEST(CrossEntropy, MatchesTheDefinition) {
  for (const std::int64_t classes : {1, 3, 10, 20, 1000}) {
    for (const std::int64_t rows : {1, 12}) {
      for (const double smoothing : {0.0, 0.2}) {
        for (const bool mixed : {false, true}) {
          Losses losses(rows, classes);
          if (mixed) losses.mix();
          CrossEntropy element = losses.element();
          element.label_smoothing = smoothing;
          element.normaliser = 12.5;
          expect_names_its_memory(element, losses.memory());
          losses.expect_right(element);
          if (mixed) continue;
          element.shares = nullptr;
          element.second_labels = nullptr;
          element.weights = nullptr;
          element.gradient = nullptr;
          expect_names_its_memory(element, losses.memory());
          losses.expect_right(element);
        }
      }
    }
  }
}

TEST(CrossEntropy, WeighsRowsAndLeavesThoseOfWeightZeroOut) {
  Losses losses(12, 20);
  losses.mix();
  for (std::size_t row = 0; row < 12; ++row) losses.weights[row] = static_cast<float>(row % 3);
  for (std::size_t row = 0; row < 12; row += 3) losses.labels[row] = losses.second[row] = -1;  // whatever their label
  CrossEntropy element = losses.element();
  element.label_smoothing = 0.1;
  expect_names_its_memory(element, losses.memory());
  losses.expect_right(element);
}

TEST(CrossEntropy, GivesTheSameWithManyLanesAndOverItsLogits) {
  Losses losses(6, 20);
  losses.mix();
  CrossEntropy element = losses.element();
  element.label_smoothing = 0.1;
  for (const int lanes : {3, 32}) {
    run_on_threads(element, lanes);
    losses.expect_right(element);
  }
  const TestMap<float> gradient = losses.gradient;
  element.gradient = losses.logits.data();
  run_on_threads(element, 7);
  losses.logits.expect_near([&](auto row, auto c) { return gradient.at(row, c); }, 1e-7);
}

TEST(CrossEntropy, ADivergedNetworkIsNeverRight) {
  Losses losses(2, 10);
  losses.logits.set(0, 9, NAN);
  losses.logits.each([&](auto row, auto c) {
    if (row == 1) losses.logits.set(row, c, NAN);
  });
  losses.labels = {0, 0};
  losses.logits.set(0, 0, 100);
  run_on_host(losses.element());
  for (const RowLoss& result : losses.results) {
    EXPECT_TRUE(std::isnan(result.loss));
    EXPECT_EQ(result.correct, 0);
  }
}

TEST(SumLosses, AddsAllRows) {
  for (const std::int64_t rows : {0, 1, 7, 1000}) {
    std::vector<RowLoss> results;
    for (std::int64_t row = 0; row < rows; ++row) results.push_back({static_cast<double>(row), 1, 0.5, 0.25});
    std::vector<StepSums> out(1);
    SumLosses element{results.data(), rows, out.data()};
    expect_names_its_memory(element, {bytes_of(results), bytes_of(out)});
    const auto check = [&] {
      const auto count = static_cast<double>(rows);
      EXPECT_EQ(out[0].loss, count * (count - 1) / 2);
      EXPECT_EQ(out[0].weight, count);
      EXPECT_EQ(out[0].correct, count / 2);
      EXPECT_EQ(out[0].correct5, count / 4);
    };
    check();
    run_on_threads(element, 8);
    check();
  }
}

}  // namespace
}  // namespace millrace::cuda
