// Outputs of layers as the host reads them, on each backend: compared with the plain backend's, and with networks that end
// there.
#include <gtest/gtest.h>

#include "replicas.h"

namespace millrace::conformance {
namespace {

// Fused layers, partly filled blocks of channels, several readers, several outputs, and a residual sum.
constexpr const char* kLayers = R"(
input = { channels = 3, height = 12, width = 10 }
layers = [
  { name = "conv", op = "conv", out = 20, kernel = 3, padding = 1 },
  { name = "relu", op = "relu" },
  { name = "pool", op = "max_pool", kernel = 2, stride = 2 },
  { name = "norm", op = "batch_norm" },
  { name = "gelu", op = "gelu" },
  { name = "split", op = "split", channels = 7 },
  { name = "joined", op = "concat", from = ["split:second", "split:first"] },
  { name = "inner", op = "conv", out = 20, kernel = 3, padding = 1 },
  { name = "inner_norm", op = "batch_norm" },
  { name = "sum", op = "add", from = ["inner_norm", "joined"] },
  { name = "sum_relu", op = "relu" },
  { name = "average", op = "global_average_pool" },
  { name = "flat", op = "flatten" },
  { name = "hidden", op = "linear", out = 9 },
  { name = "hidden_relu", op = "relu" },
  { name = "fc", op = "linear", out = 5 },
]
)";

Made compile_for(const char* backend, const Network& network, Precision precision, std::vector<LayerPort> outputs,
                 bool trains = true) {
  Made made;
  made.backend = with_simulation().backends().find(backend)->create();
  made.device = made.backend->open(0, {});
  CompileOptions options;
  options.infer_batch = kBatch;
  options.train_batch = trains ? kBatch : 0;
  options.precision = precision;
  options.request.outputs = std::move(outputs);
  made.replica = made.device->compile(network, options);
  made.replica->start();
  testkit::randomise(network, *made.replica, 1);
  return made;
}

// The values as the host reads them, after inference over `count` samples.
std::vector<std::vector<float>> outputs_of(Made& made, const Network& network, const std::vector<LayerPort>& ports,
                                           const Ref<Batch>& batch, std::uint32_t count) {
  std::vector<std::shared_ptr<std::uint8_t[]>> memory;
  std::vector<OutputCopy> copies;
  std::vector<std::size_t> sizes;
  for (const LayerPort port : ports) {
    sizes.push_back(count * static_cast<std::size_t>(network.shape_of(port).elements()));
    memory.push_back(made.device->host_buffer(sizes.back() * sizeof(float)));
    copies.push_back({port, reinterpret_cast<float*>(memory.back().get())});
  }
  StepSums sums;
  const View plain;
  made.replica->infer(batch, 0, count, std::span(&plain, 1), nullptr, sums);
  made.replica->read_outputs(copies)->wait();
  made.replica->finish();
  EXPECT_TRUE(sums.values.empty()) << "nothing is measured without a loss";
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < ports.size(); ++i) values.emplace_back(copies[i].host, copies[i].host + sizes[i]);
  return values;
}

// The network up to a layer, whose first output is then its result.
Network ending_with(const Network& network, int layer) {
  Network part = network;
  part.layers.resize(static_cast<std::size_t>(layer) + 1);
  std::size_t parameters = 0;  // in the order of layers
  for (const Layer& kept : part.layers) parameters += kept.parameters.size();
  part.parameters.resize(parameters);
  return part;
}

class Outputs : public InPrecision<> {
 protected:
  static const char* backend() { return std::get<0>(GetParam()); }
  static Precision precision() { return std::get<1>(GetParam()); }
  static double tolerance() { return precision() == Precision::bf16 ? 2e-2 : 1e-5; }
};

TEST_P(Outputs, AreThoseOfTheNetworkThatEndsThere) {
  const auto network = testkit::network_from_text(kLayers, registry());
  std::vector<LayerPort> ports;
  for (int layer = 0; layer < static_cast<int>(network->layers.size()); ++layer) ports.emplace_back(layer);
  Made whole = compile_for(backend(), *network, precision(), ports);
  const Ref<Batch> batch = batch_of(*network);
  for (const std::uint32_t count : {kBatch, kBatch - 1}) {
    const std::vector<std::vector<float>> values = outputs_of(whole, *network, ports, batch, count);
    for (const LayerPort port : ports) {
      const Network part = ending_with(*network, port.layer);
      Made made = compile_for(backend(), part, precision(), {}, false);
      StepSums sums;
      const View plain;
      made.replica->infer(batch, 0, count, std::span(&plain, 1), nullptr, sums)->wait();
      const std::vector<float> expected = made.replica->logits();
      const std::vector<float>& found = values[static_cast<std::size_t>(port.layer)];
      ASSERT_EQ(found.size(), expected.size()) << part.layers.back().name;
      EXPECT_LT(difference(found, expected), tolerance()) << part.layers.back().name << ", " << count << " samples";
    }
  }
}

// A single requested output is computed as when all are: a fusion that would hide it is refused.
TEST_P(Outputs, AreReadOneByOne) {
  const auto network = testkit::network_from_text(kLayers, registry());
  const Ref<Batch> batch = batch_of(*network);
  std::vector<LayerPort> ports;
  for (int layer = 0; layer < static_cast<int>(network->layers.size()); ++layer) {
    for (int port = 0; port < network->layers[static_cast<std::size_t>(layer)].output_count(); ++port) {
      ports.emplace_back(layer, port);
    }
  }
  Made whole = compile_for(backend(), *network, precision(), ports);
  const std::vector<std::vector<float>> all = outputs_of(whole, *network, ports, batch, kBatch);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    Made made = compile_for(backend(), *network, precision(), {ports[i]});
    const std::vector<std::vector<float>> one = outputs_of(made, *network, {ports[i]}, batch, kBatch);
    EXPECT_LT(difference(one[0], all[i]), tolerance()) << network->layers[static_cast<std::size_t>(ports[i].layer)].name;
  }
}

TEST_P(Outputs, OfVectorsAreThePlainBackends) {
  const Network network = testkit::small_network(kImage, 21, 5);
  const std::vector<LayerPort> ports = {0, 1, 2};
  Made made = compile_for(backend(), network, precision(), ports);
  Made plain;
  plain.backend = testkit::make_plain_backend();
  plain.device = plain.backend->open(0, {});
  plain.replica = plain.device->compile(network, {});
  plain.replica->start();
  testkit::randomise(network, *plain.replica, 1);
  const Ref<Batch> batch = batch_of(network);
  const auto found = outputs_of(made, network, ports, batch, kBatch), expected = outputs_of(plain, network, ports, batch, kBatch);
  for (std::size_t i = 0; i < ports.size(); ++i) EXPECT_LT(difference(found[i], expected[i]), tolerance()) << i;
}

// Sinks compare samples with rows of numbers, as many as each has. No loss uses them.
TEST_P(Outputs, LeaveRowsOfNumbersAlone) {
  const Network network = testkit::small_network(kImage, 21, 5);
  Made made = compile(backend(), network, precision(), false, {testkit::make_loss("mean_squared_error")});
  const Ref<Batch> batch = batch_of(network);
  const auto logits = [&] {
    StepSums sums;
    const View plain;
    made.replica->infer(batch, 0, kBatch, std::span(&plain, 1), nullptr, sums)->wait();
    return made.replica->logits();
  };
  const std::vector<float> expected = logits();
  std::vector<std::uint32_t> offsets(batch->capacity() + 1);  // no sample has one
  batch->numbers_per_sample = 5;
  batch->numbers = nullptr;
  batch->row_offsets = offsets.data();
  EXPECT_EQ(logits(), expected);
}

TEST_P(Outputs, OfSeveralViewsAreTheirSum) {
  const Network network = testkit::small_network(kImage, 21, 5);
  Made made = compile_for(backend(), network, precision(), {network.result()});
  const Ref<Batch> batch = batch_of(network);
  const View views[] = {{.weight = 0.5}, {.flip_x = true, .weight = 0.5}};
  StepSums sums;
  made.replica->infer(batch, 0, kBatch, views, testkit::cross_entropy(), sums);
  const auto memory = made.device->host_buffer(kBatch * 5 * sizeof(float));
  auto* const host = reinterpret_cast<float*>(memory.get());
  const OutputCopy copy{network.result(), host};
  made.replica->read_outputs(std::span(&copy, 1))->wait();
  EXPECT_EQ(std::vector<float>(host, host + kBatch * 5), made.replica->logits());
  made.replica->finish();  // `sums` may be destroyed now
}

TEST_P(Outputs, ThatWereNotAskedForAreRefused) {
  const Network network = testkit::small_network(kImage, 21, 5);
  Made made = compile_for(backend(), network, precision(), {network.result()});
  const auto memory = made.device->host_buffer(kBatch * 21 * sizeof(float));
  const OutputCopy copy{1, reinterpret_cast<float*>(memory.get())};
  StepSums sums;
  const View plain;
  made.replica->infer(batch_of(network), 0, kBatch, std::span(&plain, 1), nullptr, sums);
  EXPECT_THROW(
      {
        made.replica->read_outputs(std::span(&copy, 1))->wait();
        made.replica->finish();
      },
      Error);
}

INSTANTIATE_TEST_SUITE_P(Backends, Outputs,
                         testing::Combine(testing::Values("cpu", "simulated"),
                                          testing::Values(Precision::fp32, Precision::bf16)));

}  // namespace
}  // namespace millrace::conformance
