// Every layer type, alone and in the combinations that are fused, against the plain reference in double: logits, and gradients
// against difference quotients of the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "test_support.h"

namespace millrace::cpu::test {
namespace {

struct Case {
  const char* name;
  const char* input;   // channels, height, width
  const char* layers;  // between the input and the classifier
  const char* classifier = R"({ name = "classifier", op = "linear", out = 5 })";
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string network_text(const Case& c) {
  return std::string("input = { ") + c.input + " }\nlayers = [\n" + c.layers + "\n" + c.classifier + "\n]\n";
}

constexpr const char* kSmall = "channels = 3, height = 6, width = 7";
constexpr const char* kWide = "channels = 20, height = 6, width = 5";
#define FIRST R"({ name = "first", op = "conv", out = 20, kernel = 3, padding = 1 },)"

const Case kCases[] = {
    {"Linear", kSmall, ""},
    {"LinearWithoutBias", kSmall, "", R"({ op = "linear", out = 5, bias = false })"},
    {"LinearAfterFlatten", kSmall, FIRST R"({ op = "flatten" }, { op = "linear", out = 9 }, { op = "gelu" },)"},
    {"LinearRelu", kSmall, R"({ op = "linear", out = 30 }, { op = "relu" },)"},
    {"Conv", kWide, R"({ op = "conv", out = 17, kernel = 3, padding = "same" },)"},
    {"ConvOnImage", kSmall, R"({ op = "conv", out = 24, kernel = 2, padding = "valid" },)"},
    {"ConvStrideAndPadding", kWide, FIRST R"({ op = "conv", out = 32, kernel = [3, 2], stride = 2, padding = [1, 0, 2, 1] },)"},
    {"ConvDilated", kWide, FIRST R"({ op = "conv", out = 16, kernel = 3, dilation = 2, padding = 2, bias = false },)"},
    {"ConvPointwise", kWide, FIRST R"({ op = "conv", out = 40, kernel = 1, stride = 2, bias = false },)"},
    {"ConvGroups", kWide, FIRST R"({ op = "conv", out = 40, kernel = 3, groups = 4, padding = 1 },)"},
    {"ConvDepthwise", kWide, FIRST R"({ op = "conv", out = 20, kernel = 3, groups = 20, padding = 1 },)"},
    {"ConvRelu", kWide, FIRST R"({ op = "relu" }, { op = "conv", out = 33, kernel = 3, padding = 1 }, { op = "relu" },)"},
    {"ConvGelu", kWide, FIRST R"({ op = "gelu" }, { op = "conv", out = 33, kernel = 3, padding = 1 }, { op = "gelu" },)"},
    {"FrozenConvWithTrainedBias", kSmall,
     R"({ op = "conv", out = 24, kernel = 2, trainable = false, bias_trainable = true }, { op = "gelu" }, )" FIRST},
    {"BatchNorm", kWide, FIRST R"({ op = "batch_norm" },)"},
    {"BatchNormWithoutScale", kWide, FIRST R"({ op = "batch_norm", scale = false }, { op = "gelu" },)"},
    {"BatchNormRelu", kWide, FIRST R"({ op = "batch_norm" }, { op = "relu" },)"},
    {"BatchNormWithoutShift", kWide, FIRST R"({ op = "batch_norm", shift = false }, { op = "relu" },)"},
    {"PoolBatchNormGelu", kWide, FIRST R"({ op = "max_pool", kernel = 2 }, { op = "batch_norm" }, { op = "gelu" },)"},
    {"PoolBatchNormRelu", kWide, FIRST R"({ op = "max_pool", kernel = 2 }, { op = "batch_norm" }, { op = "relu" },)"},
    {"MaxPool", kWide, FIRST R"({ op = "max_pool", kernel = 2 },)"},
    {"MaxPoolOverlapping", kWide, FIRST R"({ op = "max_pool", kernel = 3, stride = 2, padding = 1 }, { op = "batch_norm" },)"},
    {"AveragePool", kWide, FIRST R"({ op = "average_pool", kernel = 3, stride = 2, padding = 1 },)"},
    {"AveragePoolCountingPadding", kWide,
     FIRST R"({ op = "average_pool", kernel = 2, stride = 2, padding = 1, count_padding = true },)"},
    {"GlobalAveragePool", kWide, FIRST R"({ op = "global_average_pool" },)"},
    {"Activations", kWide, FIRST R"({ op = "average_pool", kernel = 2 }, { op = "gelu" }, { op = "relu" },)"},
    {"Lrn", kWide, FIRST R"({ op = "lrn", alpha = 0.5 },)"},
    {"ScaleAndSoftmax", kWide, FIRST R"({ op = "scale", factor = 0.7 }, { op = "softmax" },)"},
    {"Concat", kWide,
     R"({ name = "a", op = "conv", out = 16, kernel = 1 }, { name = "b", op = "conv", out = 7, kernel = 1, from = "@input" },
        { op = "concat", from = ["a", "b", "a"] },)"},
    {"AddOfThree", kWide,
     R"({ name = "a", op = "conv", out = 20, kernel = 1 }, { name = "b", op = "conv", out = 20, kernel = 1, from = "a" },
        { op = "add", from = ["a", "b"] }, { name = "s", op = "scale", factor = 0.5 }, { op = "add", from = ["s", "a"] },)"},
    {"Residual", kWide,
     FIRST R"({ name = "c", op = "conv", out = 20, kernel = 3, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { op = "add", from = ["n", "first"] }, { op = "relu" },)"},
    {"ResidualGelu", kWide,
     FIRST R"({ name = "c", op = "conv", out = 20, kernel = 3, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { op = "add", from = ["first", "n"] }, { op = "gelu" },)"},
    {"ResidualOfInput", kWide,
     R"({ name = "c", op = "conv", out = 20, kernel = 3, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { op = "add", from = ["n", "@input"] }, { op = "relu" },)"},
    {"ResidualWithProjection", kWide,
     FIRST
     R"({ name = "c", op = "conv", out = 32, kernel = 3, stride = 2, padding = 1, bias = false }, { name = "n", op = "batch_norm" },
        { name = "p", op = "conv", out = 32, kernel = 1, stride = 2, bias = false, from = "first" }, { name = "q", op = "batch_norm" },
        { op = "add", from = ["n", "q"] }, { op = "relu" },)"},
    {"NormBeforeConvInABlock", kWide,
     FIRST R"({ name = "n", op = "batch_norm" }, { op = "relu" }, { name = "c", op = "conv", out = 20, kernel = 3, padding = 1 },
        { name = "m", op = "batch_norm" }, { op = "add", from = ["m", "first"] },)"},
    {"ConvClassifier", kWide, FIRST R"({ op = "relu" }, { op = "conv", out = 5, kernel = 1 },)",
     R"({ op = "global_average_pool" })"},
    {"MapOfOnePixelAsLogits", kWide, FIRST R"({ op = "relu" },)", R"({ op = "conv", out = 5, kernel = [6, 5] })"},
};

constexpr std::int64_t kSamples = 3;
const std::vector<std::int32_t> kLabels = {1, 4, 0};

struct Problem {
  std::shared_ptr<const Network> network;
  std::vector<std::vector<float>> parameters;
  std::vector<float> input;

  explicit Problem(const Case& c) : network(network_of(network_text(c))), parameters(parameter_values(*network, 6)) {
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
  std::unique_ptr<Laboratory> laboratory(bool training, Precision precision = Precision::fp32) const {
    auto made = std::make_unique<Laboratory>(network, kSamples, training, precision);
    for (int i = 0; i < static_cast<int>(parameters.size()); ++i) made->write(i, parameters[static_cast<std::size_t>(i)]);
    made->set_input(input);
    return made;
  }
};

std::vector<float> to_float(const Values& values) { return {values.begin(), values.end()}; }

class Operations : public testing::TestWithParam<Case> {};

TEST_P(Operations, ComputeWhatTheirDefinitionSays) {
  const Problem problem(GetParam());
  for (const bool training : {true, false}) {
    const auto laboratory = problem.laboratory(training);
    const std::vector<float> expected = to_float(problem.reference(problem.in_double(), training));
    EXPECT_LT(relative_difference(laboratory->forward(), expected), 2e-5) << (training ? "training" : "inference");
  }
}

TEST_P(Operations, HaveTheGradientsOfTheReference) {
  const Problem problem(GetParam());
  const auto laboratory = problem.laboratory(true);
  laboratory->forward();
  const double loss = laboratory->loss(kLabels, 0.1);
  laboratory->backward();
  std::vector<Values> values = problem.in_double();
  EXPECT_NEAR(loss, reference_loss(problem.reference(values, true), kLabels, 0.1), 1e-5 * std::abs(loss));
  for (int index = 0; index < static_cast<int>(values.size()); ++index) {
    const Parameter& parameter = problem.network->parameters[static_cast<std::size_t>(index)];
    if (!parameter.trainable || parameter.statistic) continue;
    const std::vector<float> gradient = laboratory->read(Slot::gradient, index);
    Values& perturbed = values[static_cast<std::size_t>(index)];
    std::vector<float> found, expected;
    const std::size_t stride = std::max<std::size_t>(1, gradient.size() / 6);
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
    // A bias in front of a batch normalisation has no effect, so its gradient is rounding alone.
    if (std::sqrt(norm) < 1e-7)
      EXPECT_LT(relative_difference(found, expected) * std::max(std::sqrt(norm), 1e-30), 1e-5);
    else
      EXPECT_LT(relative_difference(found, expected), 2e-4) << parameter.name;
  }
}

TEST_P(Operations, AgreeInBf16) {
  const Problem problem(GetParam());
  std::unique_ptr<Laboratory> laboratory;
  try {
    laboratory = problem.laboratory(true, Precision::bf16);
  } catch (const Error& error) {
    GTEST_SKIP() << "no bf16 on this processor: " << error.what();
  }
  const std::vector<float> expected = to_float(problem.reference(problem.in_double(), true));
  EXPECT_LT(relative_difference(laboratory->forward(), expected), 2e-2);
  laboratory->loss(kLabels);
  laboratory->backward();

  const auto exact = problem.laboratory(true);
  exact->forward();
  exact->loss(kLabels);
  exact->backward();
  for (int index = 0; index < static_cast<int>(problem.parameters.size()); ++index) {
    const Parameter& parameter = problem.network->parameters[static_cast<std::size_t>(index)];
    if (!parameter.trainable || parameter.statistic || parameter.shape.rank() == 1) continue;
    const std::vector<float> found = laboratory->read(Slot::gradient, index);
    EXPECT_LT(relative_difference(found, exact->read(Slot::gradient, index)), 0.25)
        << parameter.name;  // rounding changes which pixel of a few windows is the largest
  }
}

INSTANTIATE_TEST_SUITE_P(, Operations, testing::ValuesIn(kCases), [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::cpu::test
