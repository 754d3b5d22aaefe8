// Recomputed activations in backward: identical bits, every tensor used in its lifetime, less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "backend.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "simulation/simulated_machine.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/operator_cases.h"
#include "testkit/optimizers.h"

namespace millrace::cuda {
namespace {

using Bits = std::vector<std::vector<std::uint32_t>>;

struct Outcome {
  Bits values, gradients;  // all parameters and statistics; as bits, since NaN does not equal NaN
  std::vector<double> losses;
  std::string violations;
  std::size_t bytes = 0;  // in the memory plan
};

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

struct PinnedBatch : Batch {
  Ref<Batch> plain;
  std::shared_ptr<std::uint8_t[]> memory;
};

Ref<Batch> pinned_batch(Device& device, const Network& network, std::uint32_t count, std::uint64_t seed) {
  auto batch = make_ref<PinnedBatch>();
  batch->plain = testkit::make_batch(count, network.input);
  testkit::fill_at_random(*batch->plain, static_cast<std::int32_t>(network.output().elements()), seed);
  batch->memory = device.host_buffer(count * network.input.bytes());
  std::copy_n(batch->plain->pixels, count * network.input.bytes(), batch->memory.get());
  batch->count = count;
  batch->weight = count;
  batch->image = batch->window = network.input;
  batch->pixels = batch->memory.get();
  batch->records = batch->plain->records;
  batch->labels = batch->plain->labels;
  batch->weights = batch->plain->weights;
  return batch;
}

// The last step has one sample less.
Outcome train(const Network& network, CompileOptions options, int steps = 3) {
  const auto machine = std::make_shared<SimulatedMachine>();
  CudaDevice device(machine);
  options.seed = 5;
  options.bucket_bytes = 4096;
  const std::uint32_t most = options.train_batch;
  Outcome outcome;
  {
    options.request.update = testkit::sgd(network, 0.9, 1e-4);
    const auto replica = device.compile(network, options);
    outcome.bytes = replica->memory_plan().total();
    replica->start();
    testkit::randomise(network, *replica, 3);
    for (int step = 0; step <= steps; ++step) {
      const auto number = static_cast<std::uint64_t>(step);
      const std::uint32_t count = step == steps ? most - 1 : most;
      StepSums sums;
      replica->ingest(pinned_batch(device, network, count, number), 0, count);
      replica->forward(number);
      replica->loss(testkit::cross_entropy(), count, sums);
      std::vector<Ref<Event>> filled;
      replica->backward([&](int, Ref<Event> event) { filled.push_back(std::move(event)); });
      UpdateStep update;
      update.step = number;
      update.learning_rate = 0.05;
      for (std::size_t bucket = 0; bucket < filled.size(); ++bucket) {
        replica->update(static_cast<int>(bucket), update, filled[bucket]);
      }
      replica->finish();
      outcome.losses.push_back(sums.loss());
    }
    for (int p = 0; p < static_cast<int>(network.parameters.size()); ++p) {
      outcome.values.push_back(bits_of(replica->read(kValue, p)));
      if (network.parameters[static_cast<std::size_t>(p)].trainable) {
        outcome.gradients.push_back(bits_of(replica->read(kGradient, p)));
      }
    }
  }
  for (const testkit::Violation& violation : machine->violations()) outcome.violations += describe(violation) + "\n";
  return outcome;
}

// Returns the size of the memory plan with recomputation relative to the plan without.
double compare(const Network& network, CompileOptions options, int steps = 3) {
  const Outcome kept = train(network, options, steps);
  options.recompute = true;
  const Outcome again = train(network, options, steps);
  EXPECT_EQ(again.violations, "");
  EXPECT_EQ(again.losses, kept.losses);
  EXPECT_EQ(again.gradients, kept.gradients);
  EXPECT_EQ(again.values, kept.values);
  EXPECT_LE(again.bytes, kept.bytes + kept.bytes / 8);  // for networks of a few nodes it may be a little more
  return static_cast<double>(again.bytes) / static_cast<double>(kept.bytes);
}

CompileOptions options_of(Precision precision, bool graphs, std::uint32_t batch = 3) {
  CompileOptions options;
  options.precision = precision;
  options.graphs = graphs;
  options.train_batch = batch;
  return options;
}

class EveryOperatorRecomputed : public testing::TestWithParam<testkit::OperatorCase> {};

TEST_P(EveryOperatorRecomputed, GivesTheSameBits) {
  const auto network = testkit::network_from_text(testkit::image_network_text(GetParam()));
  compare(*network, options_of(Precision::fp32, false));  // RecomputedInEveryWay has all four pairs
  compare(*network, options_of(Precision::bf16, true));
}

const auto name_of = [](const auto& tested) { return std::string(tested.param.name); };
INSTANTIATE_TEST_SUITE_P(Recompute, EveryOperatorRecomputed,
                         testing::ValuesIn(testkit::operator_cases().begin(), testkit::operator_cases().end()), name_of);
INSTANTIATE_TEST_SUITE_P(RecomputeDrawn, EveryOperatorRecomputed,
                         testing::ValuesIn(testkit::dropout_cases().begin(), testkit::dropout_cases().end()), name_of);

// All operations that keep data for backward, within segments and at their ends, wherever 1 to 4 blocks are cut.
std::string mixed_network(int blocks) {
  std::string layers;
  for (int i = 0; i < blocks; ++i) {
    layers += fmt::format(R"(
  {{ name = "conv1_{0}", op = "conv", out = 12, kernel = 3, padding = 1 }}, {{ op = "gelu" }}, {{ op = "dropout" }},
  {{ name = "pool_{0}", op = "max_pool", kernel = 3, stride = 1, padding = 1 }}, {{ op = "lrn", size = 3 }},
  {{ name = "conv2_{0}", op = "conv", out = 12, kernel = 3, padding = 1, bias = false }}, {{ op = "relu" }},
  {{ name = "bn_{0}", op = "batch_norm" }}, {{ op = "add", from = ["bn_{0}", "pool_{0}"] }}, {{ op = "gelu" }},)",
                          i);
  }
  return fmt::format(R"(
input = {{ channels = 3, height = 8, width = 8 }}
layers = [ {} {{ op = "global_average_pool" }}, {{ name = "fc", op = "linear", out = 5 }} ])",
                     layers);
}

// Residual blocks of two convolutions, as in ResNets.
std::string residual_network(int blocks) {
  std::string layers;
  for (int i = 0; i < blocks; ++i) {
    layers += fmt::format(R"(
  {{ name = "conv1_{1}", op = "conv", from = "relu2_{0}", out = 16, kernel = 3, padding = 1, bias = false }},
  {{ name = "bn1_{1}", op = "batch_norm" }}, {{ op = "relu" }},
  {{ name = "conv2_{1}", op = "conv", out = 16, kernel = 3, padding = 1, bias = false }},
  {{ name = "bn2_{1}", op = "batch_norm" }}, {{ op = "add", from = ["bn2_{1}", "relu2_{0}"] }}, {{ name = "relu2_{1}", op = "relu" }},)",
                          i, i + 1);
  }
  return fmt::format(R"(
input = {{ channels = 3, height = 12, width = 12 }}
layers = [ {{ name = "stem", op = "conv", out = 16, kernel = 3, padding = 1 }}, {{ name = "relu2_0", op = "relu" }}, {}
  {{ op = "global_average_pool" }}, {{ name = "fc", op = "linear", out = 5 }} ])",
                     layers);
}

class RecomputedInEveryWay : public testing::TestWithParam<std::tuple<Precision, bool>> {
 protected:
  static CompileOptions options() { return options_of(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(RecomputedInEveryWay, MixedNetworksOfAnyDepthGiveTheSameBits) {
  for (const int blocks : {1, 2, 3, 5}) {
    const double share = compare(*testkit::network_from_text(mixed_network(blocks)), options());
    EXPECT_LT(share, blocks == 5 ? 0.85 : 1.125);
  }
}

TEST_P(RecomputedInEveryWay, ResidualNetworksGiveTheSameBitsInFarLessMemory) {
  EXPECT_LT(compare(*testkit::network_from_text(residual_network(8)), options()), 0.75);
}

INSTANTIATE_TEST_SUITE_P(Recompute, RecomputedInEveryWay,
                         testing::Combine(testing::Values(Precision::fp32, Precision::bf16), testing::Bool()),
                         [](const auto& tested) {
                           return std::string(to_string(std::get<0>(tested.param))) +
                                  (std::get<1>(tested.param) ? "_graphs" : "_eager");
                         });

TEST(Recompute, Airbench94GivesTheSameBits) {
  const auto network = testkit::network_from_file(MILLRACE_SOURCE_DIR "/pipelines/networks/airbench94.toml");
  EXPECT_LT(compare(*network, options_of(Precision::fp32, false, 2), 1), 1.0);
}

// Only plans; nothing runs.
TEST(Recompute, MemoryPlansOfTheZooSayWhatItSaves) {
  Registry registry;
  load_plugin(registry, MILLRACE_PLUGINS "/layers.so");
  for (const auto& [name, most] :
       std::vector<std::pair<std::string, double>>{{"resnet18", 0.6}, {"resnet50", 0.5}, {"vgg16", 0.85}}) {
    const auto network = testkit::network_from_file(MILLRACE_SOURCE_DIR "/pipelines/networks/" + name + ".toml", registry);
    CudaDevice device(std::make_shared<SimulatedMachine>());
    CompileOptions options = options_of(Precision::bf16, true, 64);
    const auto activations = [&] {
      for (const MemoryPlan::Item& item : device.compile(*network, options)->memory_plan().items) {
        if (item.what.starts_with("activations")) return static_cast<double>(item.bytes);
      }
      return 0.0;
    };
    const double kept = activations();
    options.recompute = true;
    const double again = activations();
    RecordProperty(name, fmt::format("{:.2f}", again / kept));
    EXPECT_LT(again, most * kept) << name << ": " << again / 1048576 << " of " << kept / 1048576 << " MiB";
  }
}

// A profile names the engine of every forward, also for convolutions with a kept output.
TEST(Recompute, SaysWhichEnginesComputeForward) {
  const auto network = testkit::network_from_text(residual_network(4));
  CompileOptions options = options_of(Precision::fp32, false);
  options.recompute = true;
  setenv("MILLRACE_CUDA_PROFILE", "1", 1);
  testing::internal::CaptureStderr();
  train(*network, options, 1);
  const std::string said = testing::internal::GetCapturedStderr();
  unsetenv("MILLRACE_CUDA_PROFILE");
  EXPECT_NE(said.find("training of 3 samples"), std::string::npos) << said;
  std::istringstream lines(said);
  int convolutions = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  conv") != 0) continue;
    ++convolutions;
    EXPECT_NE(line.find(" loops | loops | loops"), std::string::npos) << line;
  }
  EXPECT_EQ(convolutions, 8);
}

}  // namespace
}  // namespace millrace::cuda
