// Every layer type, alone and in all fused combinations, against the plain reference in double: logits, and gradients against
// difference quotients of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cpu_fixture.h"
#include "device_info.h"
#include "testkit/operator_cases.h"

namespace millrace::cpu::test {
namespace {

using testkit::OperatorCase;

constexpr std::int64_t kSamples = 3;
const std::vector<std::int32_t> kLabels = {1, 4, 0};

struct Problem {
  std::shared_ptr<const Network> network;
  std::vector<std::vector<float>> parameters;
  std::vector<float> input;

  explicit Problem(const OperatorCase& c) : network(network_of(network_text(c))), parameters(parameter_values(*network, 6)) {
    const auto pixels =
        static_cast<std::size_t>(kSamples * network->input.height * network->input.width * network->input.channels);
    input = noise(pixels, 11);
  }
  std::vector<Values> in_double() const {
    std::vector<Values> values;
    for (const std::vector<float>& parameter : parameters) values.emplace_back(parameter.begin(), parameter.end());
    return values;
  }
  Values reference(const std::vector<Values>& values, bool training) const {
    return reference_logits(*network, values, Values(input.begin(), input.end()), kSamples, training);
  }
  std::unique_ptr<Laboratory> laboratory(bool training, const CompileOptions& options = {}) const {
    auto made = std::make_unique<Laboratory>(network, kSamples, training, options);
    for (int i = 0; i < static_cast<int>(parameters.size()); ++i) made->write(i, parameters[static_cast<std::size_t>(i)]);
    made->set_input(input);
    return made;
  }
};

std::vector<float> to_float(const Values& values) { return {values.begin(), values.end()}; }

class Operations : public testing::TestWithParam<OperatorCase> {};

TEST_P(Operations, ComputeWhatTheirDefinitionSays) {
  const Problem problem(GetParam());
  for (const bool training : {true, false}) {
    const auto laboratory = problem.laboratory(training);
    const std::vector<float> expected = to_float(problem.reference(problem.in_double(), training));
    EXPECT_LT(relative_difference(laboratory->forward(), expected), 2e-5) << (training ? "training" : "inference");
  }
}

// A library's fusion must not hide them either: oneDNN's ReLU turns NaN into 0.
TEST_P(Operations, HideNothingThatIsNotANumber) {
  Problem problem(GetParam());
  std::ranges::fill(problem.input, std::nanf(""));
  for (const bool training : {true, false}) {
    const std::vector<float> logits = problem.laboratory(training)->forward();
    EXPECT_TRUE(std::ranges::all_of(logits, [](float value) { return std::isnan(value); }))
        << (training ? "training" : "inference");
  }
}

TEST_P(Operations, HaveTheGradientsOfTheReference) {
  const Problem problem(GetParam());
  const auto laboratory = problem.laboratory(true);
  laboratory->forward();
  const double loss = laboratory->loss(kLabels, 0.1);
  laboratory->backward();
  std::vector<Values> values = problem.in_double();
  std::uint64_t multiply_adds = 0;
  for (const Layer& layer : problem.network->layers) multiply_adds += layer.multiply_adds;
  const std::size_t differences = multiply_adds > 1'000'000 ? 2 : 6;  // of each parameter: the reference is plain loops
  EXPECT_NEAR(loss, reference_loss(problem.reference(values, true), kLabels, 0.1), 1e-5 * std::abs(loss));
  for (int index = 0; index < static_cast<int>(values.size()); ++index) {
    const Parameter& parameter = problem.network->parameters[static_cast<std::size_t>(index)];
    if (!parameter.trainable || parameter.statistic) continue;
    const std::vector<float> gradient = laboratory->read(kGradient, index);
    Values& perturbed = values[static_cast<std::size_t>(index)];
    std::vector<float> found, expected;
    const std::size_t stride = std::max<std::size_t>(1, gradient.size() / differences);
    for (std::size_t i = 0; i < gradient.size(); i += stride) {
      const double kept = perturbed[i];
      constexpr double kStep = 1e-6;
      perturbed[i] = kept + kStep;
      const double above = reference_loss(problem.reference(values, true), kLabels, 0.1);
      perturbed[i] = kept - kStep;
      const double below = reference_loss(problem.reference(values, true), kLabels, 0.1);
      perturbed[i] = kept;
      found.push_back(gradient[i]);
      expected.push_back(static_cast<float>((above - below) / (2 * kStep)));
    }
    double norm = 0;
    for (const float e : expected) norm += static_cast<double>(e) * static_cast<double>(e);
    // A bias before a batch normalisation has no effect, so its gradient is only rounding.
    if (std::sqrt(norm) < 1e-7)
      EXPECT_LT(relative_difference(found, expected) * std::max(std::sqrt(norm), 1e-30), 1e-5);
    else
      EXPECT_LT(relative_difference(found, expected), 2e-4) << parameter.name;
  }
}

TEST_P(Operations, AgreeInBf16) {
  if (!describe_processor().bf16) GTEST_SKIP() << "no bf16 on this processor";
  const Problem problem(GetParam());
  std::unique_ptr<Laboratory> laboratory;
  try {
    laboratory = problem.laboratory(true, {.precision = Precision::bf16});
  } catch (const Error& error) {
    GTEST_SKIP() << "no bf16 on this processor: " << error.what();
  }
  const std::vector<float> expected = to_float(problem.reference(problem.in_double(), true));
  EXPECT_LT(relative_difference(laboratory->forward(), expected), 2e-2);
  laboratory->loss(kLabels);
  laboratory->backward();

  // Rounding changes which pixel of a few windows is the largest, and which sums are below zero.
  const std::string_view layers = GetParam().layers;
  const bool has_kinks = layers.find("max_pool") != layers.npos || layers.find("relu") != layers.npos;
  const double most = has_kinks ? 0.25 : 0.06;
  const auto exact = problem.laboratory(true);
  exact->forward();
  exact->loss(kLabels);
  exact->backward();
  for (int index = 0; index < static_cast<int>(problem.parameters.size()); ++index) {
    const Parameter& parameter = problem.network->parameters[static_cast<std::size_t>(index)];
    if (!parameter.trainable || parameter.statistic || parameter.shape.rank() == 1) continue;
    const std::vector<float> found = laboratory->read(kGradient, index);
    EXPECT_LT(relative_difference(found, exact->read(kGradient, index)), most) << parameter.name;
  }
}

// The part of the arena whose bytes differ from `before`, outside all tensors for which alive() holds.
std::size_t written_elsewhere(std::span<const std::byte> arena, std::span<const std::byte> before,
                              const ExecutablePlan<Operation>& plan, const auto& alive) {
  std::vector<bool> allowed(arena.size());
  const std::vector<Lifetime>& lifetimes = plan.planner().lifetimes();
  for (std::size_t tensor = 0; tensor < lifetimes.size(); ++tensor) {
    const auto begin = allowed.begin() + static_cast<std::ptrdiff_t>(plan.placement().offsets[tensor]);
    if (alive(lifetimes[tensor])) std::fill_n(begin, aligned(lifetimes[tensor].bytes), true);
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < arena.size(); ++i) bytes += arena[i] != before[i] && !allowed[i] ? 1 : 0;
  return bytes;
}

// If tensors share memory, an operation that writes to one too early or too late destroys another; this detects it.
TEST_P(Operations, WriteOnlyToWhatIsPlannedForTheirTime) {
  const Problem problem(GetParam());
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    if (precision == Precision::bf16 && !describe_processor().bf16) continue;
    SCOPED_TRACE(to_string(precision));
    std::unique_ptr<Laboratory> laboratory;
    try {
      laboratory = problem.laboratory(true, {.precision = precision, .share_memory = false});
    } catch (const Error&) {  // no bf16 on this processor
      if (precision == Precision::fp32) throw;
      continue;
    }
    const ExecutablePlan<Operation>& plan = laboratory->executable().plan();
    const auto arena = laboratory->arena();
    std::vector<std::byte> before(arena.begin(), arena.end());
    laboratory->forward();
    laboratory->loss(kLabels);
    const auto in_forward = [&](const Lifetime& lifetime) { return lifetime.first <= plan.loss_time(); };
    EXPECT_EQ(written_elsewhere(arena, before, plan, in_forward), 0);
    before.assign(arena.begin(), arena.end());
    laboratory->backward();
    const auto in_backward = [&](const Lifetime& lifetime) { return lifetime.last > plan.loss_time(); };
    EXPECT_EQ(written_elsewhere(arena, before, plan, in_backward), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(, Operations, testing::ValuesIn(testkit::operator_cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::cpu::test
