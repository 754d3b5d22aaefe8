// Decisions before anything is computed: the fused layers, and the queues, streams and events.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "backend.h"
#include "cpu_fixture.h"
#include "device_info.h"
#include "folding.h"
#include "kernels/rearrange.h"
#include "primitives.h"
#include "testkit/files.h"
#include "testkit/messages.h"
#include "work_queue.h"

namespace millrace::cpu::test {
namespace {

std::vector<std::string> outputs_of(const Network& network, const std::vector<Node>& nodes) {
  std::vector<std::string> names;
  for (const Node& node : nodes) names.push_back(network.layers[static_cast<std::size_t>(node.output)].name);
  return names;
}
std::vector<std::string> outputs_of(const Network& network) { return outputs_of(network, fused(network)); }

TEST(Fusion, TakesActivationsPoolingAndAdditionsIn) {
  const auto network = network_of(R"(
    input = { channels = 3, height = 8, width = 8 }
    layers = [
      { name = "c1", op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "g1", op = "gelu" },
      { name = "c2", op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "p2", op = "max_pool", kernel = 2 },
      { name = "b2", op = "batch_norm" }, { name = "r2", op = "relu" },
      { name = "c3", op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "b3", op = "batch_norm" },
      { name = "a3", op = "add", from = ["b3", "r2"] }, { name = "r3", op = "relu" },
      { name = "fc", op = "linear", out = 4 } ])");
  EXPECT_EQ(outputs_of(*network), (std::vector<std::string>{"g1", "c2", "r2", "c3", "r3", "fc"}));
  const std::vector<Node> nodes = fused(*network);
  EXPECT_EQ(nodes[0].activation, Activation::gelu);
  EXPECT_GE(nodes[2].pool, 0);
  EXPECT_NE(nodes[4].residual, kNoResidual);
}

TEST(Fusion, TakesAnActivationIntoATransposedConvolution) {
  const auto network = network_of(R"(
    input = { channels = 3, height = 8, width = 8 }
    layers = [ { name = "t", op = "transposed_conv", out = 16, kernel = 2, stride = 2 }, { name = "r", op = "relu" },
               { name = "fc", op = "linear", out = 4 } ])");
  EXPECT_EQ(outputs_of(*network), (std::vector<std::string>{"r", "fc"}));
  const Node node = fused(*network)[0];
  EXPECT_EQ(node.kind, Node::Kind::conv);
  EXPECT_EQ(node.activation, Activation::relu);
}

TEST(Fusion, LeavesAloneWhatSomebodyElseReads) {
  const auto network = network_of(R"(
    input = { channels = 3, height = 8, width = 8 }
    layers = [
      { name = "c1", op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "r1", op = "relu" },
      { name = "both", op = "add", from = ["c1", "r1"] }, { name = "fc", op = "linear", out = 4 } ])");
  EXPECT_EQ(outputs_of(*network), (std::vector<std::string>{"c1", "r1", "both", "fc"}));
}

// A residual block, in which two normalisations follow convolutions.
constexpr const char* kBlock = R"(
    input = { channels = 16, height = 8, width = 8 }
    layers = [
      { name = "c1", op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "b1", op = "batch_norm" },
      { name = "r1", op = "relu" },
      { name = "c2", op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "b2", op = "batch_norm" },
      { name = "a2", op = "add", from = ["b2", "r1"] }, { name = "r2", op = "relu" },
      { op = "global_average_pool" }, { name = "fc", op = "linear", out = 6 } ])";

TEST(Folding, MovesNormalisationsIntoTheConvolutionsBefore) {
  const auto network = network_of(kBlock);
  const std::vector<Node> nodes = fused_to_predict(*network);
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].kind, Node::Kind::conv);
  EXPECT_EQ(folded_norm(*network, nodes[0])->name, "b1");
  EXPECT_EQ(folded_norm(*network, nodes[1])->name, "b2");
  EXPECT_EQ(nodes[1].residual, LayerPort(2));
  EXPECT_EQ(nodes[1].activation, Activation::relu);
  EXPECT_EQ(nodes[1].inputs.size(), 2U);
  EXPECT_EQ(folded_norm(*network, nodes[3]), nullptr);
}

TEST(Folding, LeavesConvolutionsAloneWhoseOutputIsRead) {
  const auto network = network_of(kBlock);
  EXPECT_EQ(outputs_of(*network, fused_to_predict(*network, {LayerPort(0)}))[0], "c1");
  const auto transposed = network_of(R"(
    input = { channels = 3, height = 8, width = 8 }
    layers = [ { name = "t", op = "transposed_conv", out = 16, kernel = 2, stride = 2 }, { name = "b", op = "batch_norm" },
               { name = "fc", op = "linear", out = 4 } ])");
  EXPECT_EQ(outputs_of(*transposed, fused_to_predict(*transposed)), (std::vector<std::string>{"t", "b", "fc"}));
}

TEST(Folding, LeavesNormalisationsAloneThatAreNotComputed) {
  Network network = *network_of(R"(
    input = { channels = 16, height = 8, width = 8 }
    layers = [ { name = "c", op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "side", op = "batch_norm" },
               { name = "r", op = "relu" }, { op = "global_average_pool" }, { name = "fc", op = "linear", out = 6 } ])");
  network.layers[2].inputs = {LayerPort(0)};  // as if a loss that is measured in training alone read "side"
  const std::vector<Node> nodes = fused_to_predict(network);
  EXPECT_EQ(outputs_of(network, nodes)[0], "r");
  EXPECT_EQ(folded_norm(network, nodes[0]), nullptr);
}

// An output that the caller asks for is not 2^-100 times a negative value.
TEST(Folding, RectifiesExactlyWhatIsReadOutside) {
  const auto network = network_of(kBlock);
  CompileOptions options;
  options.request.outputs = {LayerPort(6)};
  Laboratory laboratory(network, 2, false, options);
  const auto values = parameter_values(*network, 5);
  for (int i = 0; i < static_cast<int>(values.size()); ++i) laboratory.write(i, values[static_cast<std::size_t>(i)]);
  laboratory.set_input(noise(2 * network->input.bytes(), 3));
  laboratory.forward();
  int zeros = 0;
  for (const float value : values_of(laboratory.executable().output(LayerPort(6)))) {
    zeros += value == 0;
    EXPECT_TRUE(value == 0 || value > 1e-20F) << value;
  }
  EXPECT_GT(zeros, 0);
}

TEST(Fusion, LeavesOverlappingPoolingAlone) {
  const auto network = network_of(R"(
    input = { channels = 3, height = 8, width = 8 }
    layers = [ { name = "p", op = "max_pool", kernel = 3, stride = 2 }, { name = "b", op = "batch_norm" },
               { name = "fc", op = "linear", out = 4 } ])");
  EXPECT_EQ(outputs_of(*network), (std::vector<std::string>{"p", "b", "fc"}));
}

TEST(Fusion, NamesALayerThatItDoesNotKnow) {
  Network network = *network_of(R"(
    input = { channels = 3, height = 8, width = 8 }
    layers = [ { name = "odd", op = "relu" }, { name = "fc", op = "linear", out = 4 } ])");
  network.layers[0].op = "fourier";
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { fused(network); }).message());
}

// The layers of an executable for two samples; empty if this processor does not compute in bf16.
std::vector<LayerTime> layers_in(Precision precision, bool training, const std::shared_ptr<const Network>& network) {
  try {
    return Laboratory(network, 2, training, CompileOptions{.precision = precision}).executable().layer_times();
  } catch (const Error&) {
    if (precision != Precision::bf16) throw;
    return {};
  }
}

// The same in training and in validation, so that both agree; never for few channels or small maps, or where AMX is faster. A
// replica that only predicts prefers ours to oneDNN's, which is for training.
TEST(Winograd, IsChosenByTheLayerAlone) {
  const auto network = network_of(R"(
    input = { channels = 3, height = 12, width = 12 }
    layers = [
      { name = "first", op = "conv", out = 32, kernel = 3, padding = 1 }, { name = "few", op = "conv", out = 16, kernel = 3 },
      { name = "more", op = "conv", out = 64, kernel = 3, padding = 1 }, { name = "many", op = "conv", out = 64, kernel = 3 },
      { name = "pool", op = "max_pool", kernel = 2 }, { name = "small", op = "conv", out = 64, kernel = 3, padding = 1 },
      { name = "fc", op = "linear", out = 4 } ])");
  const bool in_bf16 = kernels().winograd_bf16 != nullptr && !multiplies_tiles();
  const dnnl::engine engine = processor();
  const bool blocked = preferred_layout(*network, {.train_batch = 2}, engine) == Layout::blocked;
  const bool by_onednn = DNNL_VERSION_MAJOR < 3 && blocked;  // it has the algorithm itself
  const bool in_float32 = kernels().winograd_f32 != nullptr && !by_onednn;
  for (const auto& [precision, here] : {std::pair{Precision::fp32, in_float32}, std::pair{Precision::bf16, in_bf16}}) {
    for (const bool training : {true, false}) {
      const std::vector<LayerTime> layers = layers_in(precision, training, network);
      if (layers.empty()) GTEST_SKIP() << "no bf16 on this processor";
      std::vector<std::string> chosen;
      for (const LayerTime& layer : layers) {
        if (layer.detail.find("Winograd") != std::string::npos) chosen.push_back(layer.layer);
      }
      const bool predicts = !training && precision == Precision::fp32 && kernels().winograd_f32 != nullptr;
      EXPECT_EQ(chosen, here || predicts ? (std::vector<std::string>{"more", "many"}) : std::vector<std::string>{}) << training;
    }
  }
}

// Rows of few outputs would leave most of a tile of AMX empty.
TEST(SideBySide, IsChosenForNarrowMapsWithTiles) {
  const auto network = network_of(R"(
    input = { channels = 64, height = 16, width = 16 }
    layers = [
      { name = "first", op = "conv", out = 64, kernel = 3, padding = 1 }, { name = "wide", op = "conv", out = 64, kernel = 3, padding = 1 },
      { name = "down", op = "conv", out = 64, kernel = 3, stride = 2, padding = 1 },
      { name = "narrow", op = "conv", out = 64, kernel = 3, padding = 1 }, { name = "one", op = "conv", out = 64, kernel = 1 },
      { name = "few", op = "conv", out = 32, kernel = 3 }, { name = "fc", op = "linear", out = 4 } ])");
  const std::vector<LayerTime> layers = layers_in(Precision::bf16, true, network);
  if (layers.empty()) GTEST_SKIP() << "no bf16 on this processor";
  std::vector<std::string> chosen;
  for (const LayerTime& layer : layers) {
    if (layer.detail.find("side by side") != std::string::npos) chosen.push_back(layer.layer);
  }
  EXPECT_EQ(chosen, multiplies_tiles() ? (std::vector<std::string>{"down", "narrow"}) : std::vector<std::string>{});
}

// The largest batch chooses the weights' layout, for which oneDNN 3 has only reference loops with smaller batches.
TEST(SideBySide, IsNeverLeftToAReferenceImplementation) {
  const auto network = network_of(R"(
    input = { channels = 64, height = 7, width = 7 }
    layers = [
      { name = "first", op = "conv", out = 256, kernel = 3, padding = 1 },
      { name = "narrow", op = "conv", out = 256, kernel = 3, padding = 1 }, { name = "fc", op = "linear", out = 4 } ])");
  const auto device = CpuBackend().open(0, {});
  if (!device->info().bf16) GTEST_SKIP() << "no bf16 on this processor";
  for (const std::uint32_t largest : {50U, 128U}) {
    const auto replica = device->compile(
        *network, {.train_batch = 20, .largest_train_batch = largest, .precision = Precision::bf16, .time_layers = true});
    ASSERT_FALSE(replica->layer_times().empty());
    for (const LayerTime& layer : replica->layer_times())
      EXPECT_EQ(layer.detail.find("ref"), std::string::npos) << largest << ", " << layer.layer << ": " << layer.detail;
  }
}

// For such widths oneDNN computes bf16 gradients in plain loops, a hundred times as slowly as in float32.
TEST(Widths, AreNeverLeftToAReferenceImplementation) {
  for (const int width : {8, 12, 24, 40}) {
    const auto network = network_of(fmt::format(R"(
      input = {{ channels = 3, height = 23, width = 30 }}
      layers = [
        {{ name = "first", op = "conv", out = {0}, kernel = 3, padding = 1 }}, {{ op = "relu" }},
        {{ name = "second", op = "conv", out = {0}, kernel = 3, padding = 1 }}, {{ name = "pool", op = "max_pool", kernel = 2 }},
        {{ name = "third", op = "conv", out = {1}, kernel = 3, padding = 1 }}, {{ op = "relu" }},
        {{ name = "up", op = "transposed_conv", out = {0}, kernel = 2, stride = 2 }}, {{ op = "relu" }},
        {{ name = "last", op = "conv", out = 11, kernel = 1 }} ])",
                                                width, 2 * width));
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const std::vector<LayerTime> layers = layers_in(precision, true, network);
      if (layers.empty()) GTEST_SKIP() << "no bf16 on this processor";
      for (const LayerTime& layer : layers) {
        EXPECT_EQ(layer.detail.find("ref"), std::string::npos) << width << ", " << layer.layer << ": " << layer.detail;
      }
    }
  }
}

// As in DeepLab, whose windows reach further over the edge than oneDNN's fast implementations support. The last of the three is
// the gradient of the weights: for maps of so few columns oneDNN has nothing else with AVX2.
TEST(Dilation, IsNeverLeftToAReferenceImplementation) {
  const auto network = network_of(R"(
    input = { channels = 3, height = 23, width = 30 }
    layers = [
      { name = "first", op = "conv", out = 32, kernel = 3, padding = 1 },
      { name = "two", op = "conv", out = 32, kernel = 3, dilation = 2, padding = 2 },
      { name = "twelve", op = "conv", out = 32, kernel = 3, dilation = 12, padding = 12 }, { op = "relu" },
      { name = "more", op = "conv", out = 48, kernel = 3, dilation = 24, padding = 24 }, { op = "relu" },
      { name = "most", op = "conv", out = 32, kernel = 3, dilation = 36, padding = 36 }, { name = "fc", op = "linear", out = 4 } ])");
  const bool avx512 = describe_processor().bf16;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const std::vector<LayerTime> layers = layers_in(precision, true, network);
    if (layers.empty()) GTEST_SKIP() << "no bf16 on this processor";
    for (const LayerTime& layer : layers) {
      if (layer.layer == "fc") continue;
      EXPECT_EQ(layer.detail.find("ref"), std::string::npos) << layer.layer << ": " << layer.detail;
      const std::string fast = avx512 ? layer.detail : layer.detail.substr(0, layer.detail.rfind('|'));
      EXPECT_EQ(fast.find("gemm:"), std::string::npos) << layer.layer << ": " << layer.detail;
    }
  }
}

TEST(WorkQueue, KeepsTheOrder) {
  WorkQueue queue("test");
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) queue.submit([&order, i] { order.push_back(i); });
  queue.drain();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(WorkQueue, SkipsWorkAfterAnErrorButCompletesItsEvents) {
  WorkQueue queue("test");
  bool worked = false, cleaned = false;
  queue.submit([] { fail(ErrorKind::device, "broken"); });
  const Ref<HostEvent> skipped = queue.submit([&] { worked = true; }, [&] { cleaned = true; });
  skipped->wait_until_complete();
  std::string failure;
  skipped->then([&](const Error* error) { failure = error == nullptr ? "none" : error->message(); });
  EXPECT_EQ(failure, "broken") << "what reads the results learns that there are none";
  EXPECT_THROW(skipped->wait(), Error);
  EXPECT_NO_THROW(queue.drain());
  EXPECT_FALSE(worked);
  EXPECT_TRUE(cleaned);
  EXPECT_THROW(queue.check(), Error);
  EXPECT_THROW(queue.run([] {}), Error);
}

TEST(WorkQueue, ForgetsAnErrorThatItsCallerReceives) {
  WorkQueue queue("test");
  EXPECT_THROW(queue.run([] { fail(ErrorKind::usage, "no"); }), Error);
  EXPECT_NO_THROW(queue.run([] {}));
}

TEST(HostEvent, CallsBackOnceWhetherBeforeOrAfter) {
  HostEvent event;
  int before = 0, after = 0;
  event.then([&](const Error*) { ++before; });
  EXPECT_EQ(before, 0);
  event.signal();
  event.then([&](const Error*) { ++after; });
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
  EXPECT_TRUE(event.complete());
}

TEST(Stream, SumsInTheOrderGivenAfterWhatItWaitsFor) {
  const auto device = CpuBackend().open(0, {});
  const auto stream = device->make_stream("reduce");
  std::vector<float> a(1000, 1.0F), b(1000, 2.0F), total(1000);
  const Ref<HostEvent> ready = make_ref<HostEvent>();
  const std::vector<const float*> sources = {a.data(), b.data()};
  stream->wait(ready);
  stream->sum(total.data(), sources, total.size());
  stream->copy(a.data(), total.data(), total.size());
  const Ref<Event> done = stream->record();
  std::atomic<bool> called = false;
  done->then([&](const Error*) { called = true; });
  EXPECT_FALSE(done->complete());
  ready->signal();
  done->wait();
  EXPECT_EQ(a, std::vector<float>(1000, 3.0F));
  while (!called) std::this_thread::yield();  // after waiting threads were woken
}

TEST(Device, SaysWhatTheProcessorIs) {
  CpuBackend backend;
  const auto devices = backend.devices();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_FALSE(devices[0].name.empty());
  EXPECT_GT(devices[0].memory, 0U);
  EXPECT_THROW(backend.open(1, {}), Error);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(backend.open(0, {})->host_buffer(100).get()) % 64, 0U);
}

}  // namespace
}  // namespace millrace::cpu::test
