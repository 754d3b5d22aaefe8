// Every layer type, alone and in combinations that backends fuse: the device compared with the CPU backend, and its gradients
// with difference quotients of its own loss.
#include <gtest/gtest-spi.h>

#include <algorithm>

#include "agreement.h"
#include "testkit/gradient_check.h"
#include "testkit/layer_examples.h"
#include "testkit/networks.h"
#include "testkit/operator_cases.h"

namespace millrace::gpu {
namespace {

using testkit::OperatorCase;

constexpr std::uint32_t kSamples = 16;

class GpuOperators : public GpuTest, public testing::WithParamInterface<OperatorCase> {
 protected:
  std::shared_ptr<const Network> network() const { return testkit::network_from_text(testkit::image_network_text(GetParam())); }

  void expect_agreement(Precision precision) {
    Comparison comparison(network(), {.batch = kSamples}, 7);
    Outcome found;
    try {
      found = comparison.train(device(), {.precision = precision});
    } catch (const Error& error) {
      if (on_gpu() || precision == Precision::fp32) throw;
      GTEST_SKIP() << to_string(precision) << " on this processor: " << error.what();
    }
    comparison.expect_like_oracle(found, oracle(), precision, true);
  }
};

TEST_P(GpuOperators, AgreeInFloat32) { expect_agreement(Precision::fp32); }
TEST_P(GpuOperators, AgreeInTf32) { expect_agreement(Precision::tf32); }
TEST_P(GpuOperators, AgreeInBf16) { expect_agreement(Precision::bf16); }

INSTANTIATE_TEST_SUITE_P(Fixed, GpuOperators, testing::ValuesIn(testkit::operator_cases()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Drawn, GpuOperators, testing::ValuesIn(testkit::dropout_cases()),
                         [](const auto& tested) { return tested.param.name; });

// Layers of plugins, on their own examples: portable kernels compiled by nvcc.
class GpuLayers : public GpuTest {
 protected:
  void expect_agreement(Precision precision) {
    for (const auto& [name, type] : registry().layers()) {
      for (const LayerExample& example : type.examples) {
        const std::string text = testkit::example_network(type, example, true);
        const std::shared_ptr<const Network> network = testkit::network_from_text(text, registry());
        const auto is_portable = [](const Layer& layer) { return layer.portable != nullptr; };
        if (std::none_of(network->layers.begin(), network->layers.end(), is_portable)) continue;
        SCOPED_TRACE(text);
        Comparison comparison(network, {.batch = kSamples}, 7);
        comparison.expect_like_oracle(comparison.train(device(), {.precision = precision}), oracle(), precision, true);
      }
    }
  }
};

TEST_F(GpuLayers, AgreeInFloat32) { expect_agreement(Precision::fp32); }
TEST_F(GpuLayers, AgreeInBf16) { expect_agreement(Precision::bf16); }

// Tests the comparison itself: it must detect a wrong result.
class GpuComparison : public GpuTest {};

TEST_F(GpuComparison, SeesAThousandthThatIsWrong) {
  const OperatorCase& tested = testkit::operator_cases().front();
  Comparison comparison(testkit::network_from_text(testkit::image_network_text(tested)), {.batch = kSamples}, 7);
  Outcome found = comparison.train(oracle());
  comparison.expect_like_oracle(found, oracle(), Precision::fp32, true);
  for (float& value : found.logits) value *= 1.001F;
  EXPECT_NONFATAL_FAILURE(comparison.expect_like_oracle(found, oracle(), Precision::fp32, true), "logits");
}

// A kink (ReLU, the choice of a maximum) distorts the quotient of a few elements: 1e-2 without kinks, as in the CPU backend's
// own tests, and more with them.
class GpuGradients : public GpuTest, public testing::WithParamInterface<OperatorCase> {};

TEST_P(GpuGradients, AreTheSlopeOfTheLoss) {
  const auto network = testkit::network_from_text(testkit::image_network_text(GetParam()));
  CompileOptions options;
  options.train_batch = kSamples;
  Trainee trainee(device(), network, options, random_values(*network, 3));
  const Ref<Batch> batch = random_batch(device(), *network, kSamples, 5);
  const auto report = testkit::check_gradients(*network, trainee.replica(), batch);
  const std::string layers = GetParam().layers;
  const bool kinks = layers.find("relu") != std::string::npos || layers.find("max_pool") != std::string::npos;
  EXPECT_LT(report.worst(), kinks ? 5e-2 : 1e-2) << report.text();
}

INSTANTIATE_TEST_SUITE_P(Fixed, GpuGradients, testing::ValuesIn(testkit::operator_cases()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Drawn, GpuGradients, testing::ValuesIn(testkit::dropout_cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::gpu
