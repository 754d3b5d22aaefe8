// Networks in int8 against the plain reference in double, whose rounding is that of millrace/backend/int8.h.
#include "millrace/backend/int8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cpu_fixture.h"
#include "int8/int8_plan.h"
#include "millrace/error.h"
#include "millrace/layer.h"

namespace millrace::cpu::test {
namespace {

constexpr std::int64_t kInt8Samples = 3;

// Stands for the kernels that this backend does not need.
class Unused final : public PortableLayer {
 public:
  void forward(millrace::Pass&) const override {}
  void backward(millrace::Pass&) const override {}
};

// A value that its only reader, a ReLU, rounds.
bool is_before_relu(const Network& network, std::size_t layer) {
  return layer + 1 < network.layers.size() && network.layers[layer + 1].op == "relu";
}

// The network with all values on grids, apart from those before a ReLU and the result.
std::shared_ptr<const Network> rounded(const Network& network) {
  auto made = std::make_shared<Network>(network);
  made->layers.clear();
  std::vector<LayerPort> values(network.layers.size(), 0);
  LayerPort image = Network::kInput;
  const auto quantise = [&](LayerPort of, const Shape& shape, const QuantiseAttributes& grid) {
    Layer layer;
    layer.name = "int8_" + std::to_string(made->layers.size());
    layer.op = kQuantise;
    layer.inputs = {of};
    layer.output = shape;
    layer.input_shapes = {shape};
    layer.attributes = std::make_shared<QuantiseAttributes>(grid);
    layer.portable = std::make_shared<Unused>();
    made->layers.push_back(std::move(layer));
    return LayerPort(static_cast<int>(made->layers.size()) - 1);
  };
  const auto value = [&](LayerPort of) { return of.layer < 0 ? image : values[static_cast<std::size_t>(of.layer)]; };
  image = quantise(Network::kInput, {network.input.channels, network.input.height, network.input.width}, {1.0F / 127, true});
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    Layer layer = network.layers[i];
    for (LayerPort& input : layer.inputs) input = value(input);
    if (layer.op == "conv" || layer.op == "linear") {
      Parameter scale;
      scale.name = layer.name + ".weight_scale";
      scale.shape = {layer.output[0]};
      scale.trainable = false;
      layer.parameters.push_back(static_cast<int>(made->parameters.size()));
      made->parameters.push_back(std::move(scale));
    }
    made->layers.push_back(std::move(layer));
    values[i] = static_cast<int>(made->layers.size()) - 1;
    const std::string& op = network.layers[i].op;
    if (is_before_relu(network, i) || i + 1 == network.layers.size()) continue;
    // A pooling shares the grid of the ReLU before it.
    values[i] = quantise(values[i], network.layers[i].output,
                         {op == "relu" || op == "max_pool" ? 0.01F : 0.02F, op != "relu" && op != "max_pool"});
  }
  return made;
}

// Weights and scales of which the former are multiples.
std::vector<std::vector<float>> integer_parameters(const Network& network) {
  std::vector<std::vector<float>> all = parameter_values(network, 6);
  for (const Layer& layer : network.layers) {
    if (!is_int8(layer)) continue;
    auto &weights = all[static_cast<std::size_t>(layer.parameters[0])],
         &scales = all[static_cast<std::size_t>(layer.parameters[2])];
    const std::size_t each = weights.size() / scales.size();
    for (std::size_t c = 0; c < scales.size(); ++c) {
      scales[c] = 0.004F + 0.001F * static_cast<float>(c % 5);
      for (std::size_t i = c * each; i < (c + 1) * each; ++i)
        weights[i] = scales[c] * std::clamp(std::nearbyint(weights[i] / scales[c]), -127.0F, 127.0F);
    }
  }
  return all;
}

void expect_reference(const char* toml) {
  const auto network = rounded(*network_of(toml));
  const std::vector<std::vector<float>> parameters = integer_parameters(*network);
  const std::vector<float> input =
      noise(static_cast<std::size_t>(kInt8Samples * network->input.height * network->input.width * network->input.channels), 3);
  Laboratory laboratory(network, kInt8Samples, false);
  std::vector<Values> in_double;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const std::vector<float>& values = parameters[static_cast<std::size_t>(p)];
    laboratory.write(p, values);
    in_double.emplace_back(values.begin(), values.end());
  }
  const auto forward = [&] {  // the input's memory is used again during a pass
    laboratory.set_input(input);
    return laboratory.forward();
  };
  const std::vector<float> logits = forward();
  const Values expected = reference_logits(*network, in_double, Values(input.begin(), input.end()), kInt8Samples, false);
  // A sum between two integers may be rounded to either.
  EXPECT_LT(relative_difference(logits, {expected.begin(), expected.end()}), 5e-3);
  EXPECT_EQ(forward(), logits);
  for (std::size_t p = 0; p < parameters.size(); ++p) {  // new weights are taken
    std::vector<float> twice = parameters[p];
    if (network->parameters[p].name.ends_with("bias")) {
      for (float& value : twice) value *= 2;
      laboratory.write(static_cast<int>(p), twice);
    }
  }
  EXPECT_NE(forward(), logits);
}

TEST(Int8, ComputesWhatItsDefinitionSays) {
  expect_reference(R"(
    input = { channels = 3, height = 12, width = 10, mean = [0.5, 0.5, 0.5], deviation = [0.5, 0.5, 0.5] }
    layers = [
      { name = "c1", op = "conv", out = 16, kernel = 3, padding = 1 },
      { name = "r1", op = "relu" },
      { name = "p1", op = "max_pool", kernel = 3, stride = 2, padding = 1 },
      { name = "c2", op = "conv", out = 24, kernel = 3, stride = 2, padding = 1 },
      { name = "r2", op = "relu" },
      { name = "fc", op = "linear", out = 5 },
    ])");
}

TEST(Int8, AddsResidualsAndComputesGroups) {
  expect_reference(R"(
    input = { channels = 3, height = 9, width = 9, mean = [0.5, 0.5, 0.5], deviation = [0.5, 0.5, 0.5] }
    layers = [
      { name = "c1", op = "conv", out = 20, kernel = 3 },
      { name = "r1", op = "relu" },
      { name = "c2", op = "conv", out = 20, kernel = 3, padding = 1, groups = 20 },
      { name = "a", op = "add", from = ["c2", "r1"] },
      { name = "ra", op = "relu" },
      { name = "c3", op = "conv", out = 20, kernel = [1, 3], padding = "same", groups = 4 },
      { name = "b", op = "add", from = ["c3", "ra"] },
      { name = "g", op = "global_average_pool" },
      { name = "f1", op = "linear", out = 12 },
      { name = "r4", op = "relu" },
      { name = "f2", op = "linear", out = 5 },
    ])");
}

// A network of layers that multiply bytes keeps no activation in float32.
TEST(Int8, KeepsBytesBetweenLayers) {
  if (!multiplies_bytes()) GTEST_SKIP() << "this processor has no VNNI";
  const auto network = rounded(*network_of(R"(
    input = { channels = 3, height = 64, width = 64, mean = [0.5, 0.5, 0.5], deviation = [0.5, 0.5, 0.5] }
    layers = [{ op = "conv", out = 16, kernel = 3, padding = 1 }, { op = "relu" }, { op = "conv", out = 16, kernel = 3, padding = 1 },
              { op = "relu" }, { op = "max_pool", kernel = 64 }, { op = "linear", out = 2 }])"));
  const Laboratory int8(network, kInt8Samples, false);
  constexpr std::size_t kMap = kInt8Samples * 16 * 64 * 64;
  EXPECT_LT(int8.arena().size(), 4 * kMap) << "a map in float32";
}

TEST(Int8, IsNotTrained) {
  const auto network = rounded(*network_of(R"(
    input = { channels = 3, height = 8, width = 8, mean = [0.5, 0.5, 0.5], deviation = [0.5, 0.5, 0.5] }
    layers = [{ op = "conv", out = 8, kernel = 3 }, { op = "relu" }, { op = "linear", out = 2 }])"));
  EXPECT_THROW(Laboratory(network, kInt8Samples, true), Error);
}

}  // namespace
}  // namespace millrace::cpu::test
