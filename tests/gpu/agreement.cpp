#include "agreement.h"

#include <algorithm>
#include <cmath>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace::gpu {
namespace {

constexpr double kLikeRounding = 3;  // an estimate from a few draws is rough
// Share of all gradients: smaller ones, such as of a bias before a batch norm, may be pure rounding.
constexpr double kNegligible = 5e-2;
constexpr std::uint64_t kDrawsOfEach = 6,
                        kDrawsOfWhole = 1;  // one element in a hundred that changes direction is not in every draw

double roundoff(Precision precision) {
  switch (precision) {
    case Precision::fp32: return 0x1p-23;
    case Precision::tf32: return 0x1p-11;
    case Precision::bf16: return 0x1p-8;
  }
  return 0;
}

double square_norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

double square_distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return sum;
}

double norm(const Arrays& arrays) {
  double sum = 0;
  for (const auto& array : arrays) sum += square_norm(array);
  return std::sqrt(sum);
}

// Multiplies each value by 1 + u, with u uniform between plus and minus the roundoff.
void round_at_random(Arrays& arrays, const Network& network, double by, std::uint64_t draw) {
  for (std::size_t p = 0; p < arrays.size(); ++p) {
    if (network.parameters[p].statistic) continue;
    for (std::size_t i = 0; i < arrays[p].size(); ++i) {
      const double even = static_cast<double>(mix64(combine(combine(draw, p), i)) >> 11) * 0x1p-52 - 1;
      arrays[p][i] = static_cast<float>(static_cast<double>(arrays[p][i]) * (1 + by * even));
    }
  }
}

// Records the limit next to the result: passing by the yardstick differs from passing by the fixed bound, and visit.py counts
// them separately.
void expect_close(double difference, Precision precision, double yardstick, const std::string& what) {
  const double bound = tolerance(precision);
  testing::Test::RecordProperty(fmt::format("{} {}", to_string(precision), what),
                                fmt::format("{:.2e} (bound {:.0e}, rounding {:.2e})", difference, bound, yardstick));
  EXPECT_LE(difference, std::max(bound, kLikeRounding * yardstick))
      << what << ": bound " << bound << ", rounding of the weights alone " << yardstick;
}

}  // namespace

double tolerance(Precision precision) {
  switch (precision) {
    case Precision::fp32: return 1e-4;
    case Precision::tf32: return 1e-2;
    case Precision::bf16: return 2e-2;
  }
  return 0;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  return std::sqrt(square_distance(a, b) / std::max(square_norm(b), 1e-60));
}

double relative_difference(const Arrays& a, const Arrays& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t p = 0; p < std::min(a.size(), b.size()); ++p) sum += square_distance(a[p], b[p]);
  return std::sqrt(sum) / std::max(norm(b), 1e-30);
}

Comparison::Comparison(std::shared_ptr<const Network> network, const Course& course, std::uint64_t seed)
    : network_(std::move(network)), course_(course), seed_(seed), values_(random_values(*network_, seed)) {}

Outcome Comparison::train_from(const Arrays& values, Device& device, CompileOptions options) const {
  options.train_batch = course_.batch;
  options.seed = seed_;
  Trainee trainee(device, network_, options, values, course_.outputs);
  Outcome outcome;
  for (int step = 0; step < course_.steps; ++step) {
    const auto number = static_cast<std::uint64_t>(step);
    trainee.step(random_batch(device, *network_, course_.batch, combine(seed_, number)), number, course_.rate);
    if (step > 0) continue;
    outcome.logits = trainee.logits();
    outcome.gradients = trainee.gradients();
  }
  outcome.loss = trainee.loss();
  outcome.values = trainee.values();
  return outcome;
}

void Comparison::expect_like_oracle(const Outcome& found, Device& oracle, Precision precision, bool each) {
  if (!exact_) exact_ = train(oracle);
  // Activations and gradients are rounded like weights: here twice the rounding is applied to the weights.
  std::vector<Outcome> rounded;
  for (std::uint64_t draw = 0; draw < (each ? kDrawsOfEach : kDrawsOfWhole); ++draw) {
    Arrays values = values_;
    round_at_random(values, *network_, 2 * roundoff(precision), draw);
    rounded.push_back(train_from(values, oracle, {}));
  }
  const auto relative = [&](const auto& of) { return relative_difference(of(found), of(*exact_)); };
  const auto largest = [&](const auto& difference) {
    double most = 0;
    for (const Outcome& outcome : rounded) most = std::max(most, difference(outcome));
    return most;
  };
  const auto yardstick = [&](const auto& of) {
    return largest([&](const Outcome& outcome) { return relative_difference(of(outcome), of(*exact_)); });
  };
  const auto logits = [](const Outcome& outcome) -> const std::vector<float>& { return outcome.logits; };
  const auto end = [](const Outcome& outcome) -> const Arrays& { return outcome.values; };
  expect_close(relative(logits), precision, yardstick(logits), "logits");
  expect_close(relative(end), precision, yardstick(end), "values");
  const auto of_loss = [&](const Outcome& outcome) { return std::abs(outcome.loss - exact_->loss) / exact_->loss; };
  expect_close(of_loss(found), precision, largest(of_loss), "loss");
  expect_gradients(found, rounded, precision, each);
}

void Comparison::expect_gradients(const Outcome& found, const std::vector<Outcome>& rounded, Precision precision,
                                  bool each) const {
  const Arrays& exact = exact_->gradients;
  const double whole = norm(exact);
  double yardstick = 0;
  for (const Outcome& outcome : rounded) yardstick = std::max(yardstick, relative_difference(outcome.gradients, exact));
  expect_close(relative_difference(found.gradients, exact), precision, yardstick, "gradients");
  for (std::size_t p = 0; each && p < exact.size(); ++p) {
    const double scale = std::max(std::sqrt(square_norm(exact[p])), kNegligible * whole);
    const auto distance = [&](const Outcome& outcome) {
      return std::sqrt(square_distance(outcome.gradients[p], exact[p])) / scale;
    };
    yardstick = 0;
    for (const Outcome& outcome : rounded) yardstick = std::max(yardstick, distance(outcome));
    expect_close(distance(found), precision, yardstick, network_->parameters[p].name);
  }
}

}  // namespace millrace::gpu
