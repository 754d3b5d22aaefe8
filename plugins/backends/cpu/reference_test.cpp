// Whole networks against PyTorch: tests/reference/*.json, whose README describes how they were made and how to compare.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cpu_fixture.h"
#include "testkit/reference_value.h"

namespace millrace::cpu::test {
namespace {

using Json = nlohmann::json;

std::vector<float> tensor_of(const Json& tensor) {
  std::size_t size = 1;
  for (const auto& extent : tensor["shape"]) size *= extent.get<std::size_t>();
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = testkit::reference_value(static_cast<std::uint32_t>(i), tensor["phase"], tensor["scale"], tensor["offset"]);
  }
  return values;
}

void expect_like(const std::vector<float>& values, const Json& summary, double bound, const std::string& what) {
  double squares = 0, sum = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
    sum += static_cast<double>(value);
  }
  const double l2 = summary["l2"];
  EXPECT_NEAR(std::sqrt(squares), l2, bound * l2) << what;
  EXPECT_NEAR(sum, summary["sum"].get<double>(), bound * l2 * std::sqrt(static_cast<double>(values.size()))) << what;
  const auto samples = summary["samples"].get<std::vector<double>>();
  const auto stride = summary["stride"].get<std::size_t>();
  std::vector<float> found;
  for (std::size_t j = 0; j < samples.size(); ++j) found.push_back(values[j * stride]);
  EXPECT_LT(relative_difference(found, {samples.begin(), samples.end()}), bound) << what;
}

constexpr double kLikePyTorch = 1.5;  // 64 values represent a whole tensor

void check(const std::string& file, const std::string& network_file, Precision precision, double bound) {
  const Json reference = Json::parse(std::ifstream(std::string(MILLRACE_SOURCE_DIR) + "/tests/reference/" + file));
  const auto network = network_from(network_file);
  const auto samples = static_cast<std::int64_t>(reference["labels"].size());
  std::unique_ptr<Laboratory> laboratory;
  try {
    laboratory = std::make_unique<Laboratory>(network, samples, true, CompileOptions{.precision = precision});
  } catch (const Error& error) {
    if (precision == Precision::fp32) throw;
    GTEST_SKIP() << "no bf16 on this processor: " << error.what();
  }
  for (int i = 0; i < static_cast<int>(network->parameters.size()); ++i) {
    const Parameter& parameter = network->parameters[static_cast<std::size_t>(i)];
    const auto size = static_cast<std::size_t>(parameter.shape.elements());
    if (parameter.statistic) laboratory->write(i, std::vector<float>(size, parameter.name.ends_with("var") ? 1.0F : 0.0F));
  }
  for (const auto& [name, tensor] : reference["tensors"].items()) {
    if (name == "input")
      laboratory->set_input(tensor_of(tensor));
    else
      laboratory->write(network->find_parameter(name), tensor_of(tensor));
  }
  expect_like(laboratory->forward(), reference["logits"]["values"], bound, "logits");
  const Json& options = reference["loss_options"];
  const double loss = laboratory->loss(reference["labels"].get<std::vector<std::int32_t>>(), options["label_smoothing"],
                                       options["reduction"] == "sum");
  EXPECT_NEAR(loss, reference["loss"].get<double>(), bound * loss);
  expect_like(laboratory->d_logits(), reference["logits"]["gradient"], bound, "gradient of the logits");
  laboratory->backward();
  for (const auto& [name, tensor] : reference["tensors"].items()) {
    if (!tensor.contains("gradient") || tensor["gradient"].is_null()) continue;
    const int parameter = network->find_parameter(name);
    if (parameter < 0) continue;
    double gradient_bound = bound;
    if (precision == Precision::bf16)
      gradient_bound = std::max(bound, kLikePyTorch * tensor["gradient"]["bf16_difference"].get<double>());
    expect_like(laboratory->read(kGradient, parameter), tensor["gradient"], gradient_bound, name);
  }
  for (const auto& [name, summary] : reference["running"].items()) {
    expect_like(laboratory->read(kValue, network->find_parameter(name)), summary["values"], bound, name);
  }
}

TEST(Reference, AirbenchAgreesWithPyTorch) {
  check("airbench.json", "pipelines/networks/airbench94.toml", Precision::fp32, 1e-4);
}
TEST(Reference, ResidualBlockAgreesWithPyTorch) {
  check("residual.json", "pipelines/networks/residual_block.toml", Precision::fp32, 1e-4);
}

// Rounding to bf16 changes which pixel of a window is the largest, and which inputs of a ReLU are positive, for about one in a
// hundred; the gradient then takes another path, and a fraction p of such elements is a relative difference of sqrt(2 p). The
// bound for such gradients is PyTorch's own: the difference between its bf16 and float32 steps (23 %; with float32's winners 4
// %).
TEST(Reference, AirbenchAgreesInBf16) { check("airbench.json", "pipelines/networks/airbench94.toml", Precision::bf16, 2e-2); }
TEST(Reference, ResidualBlockAgreesInBf16) {
  check("residual.json", "pipelines/networks/residual_block.toml", Precision::bf16, 2e-2);
}

TEST(Reference, GradientsOfASmoothNetworkAgreeInBf16) {
  const auto network = network_of(R"(
    input = { channels = 3, height = 16, width = 16 }
    layers = [
      { op = "conv", out = 24, kernel = 2 }, { op = "gelu" }, { op = "conv", out = 64, kernel = 3, padding = 1, bias = false },
      { op = "average_pool", kernel = 3 }, { op = "batch_norm" }, { op = "gelu" }, { op = "linear", out = 10 } ])");
  const std::vector<std::int32_t> labels = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto values = parameter_values(*network, 3);
  std::vector<std::vector<std::vector<float>>> gradients;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    std::unique_ptr<Laboratory> laboratory;
    try {
      laboratory = std::make_unique<Laboratory>(network, 8, true, CompileOptions{.precision = precision});
    } catch (const Error& error) {
      GTEST_SKIP() << "no bf16 on this processor: " << error.what();
    }
    for (int i = 0; i < static_cast<int>(values.size()); ++i) laboratory->write(i, values[static_cast<std::size_t>(i)]);
    laboratory->set_input(noise(8 * 3 * 16 * 16, 4));
    laboratory->forward();
    laboratory->loss(labels);
    laboratory->backward();
    gradients.emplace_back();
    for (int i = 0; i < static_cast<int>(values.size()); ++i) {
      const Parameter& parameter = network->parameters[static_cast<std::size_t>(i)];
      if (!parameter.statistic) gradients.back().push_back(laboratory->read(kGradient, i));
    }
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) EXPECT_LT(relative_difference(gradients[1][i], gradients[0][i]), 2e-2);
}

}  // namespace
}  // namespace millrace::cpu::test
