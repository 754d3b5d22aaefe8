// Measures a training step: prints images per second and a table of the operations.
//
//   cpu_step_bench NETWORK.toml [--batch 1024] [--steps 5] [--precision fp32|bf16] [--threads N]
//
// Synthetic pixels in memory; ingest, forward, loss, backward and update, as in a run.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "backend.h"
#include "layers.h"
#include "millrace/util/host_cores.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"

using namespace millrace;

namespace {

struct Options {
  std::string network, precision = "fp32";
  std::uint32_t batch = 1024;
  int steps = 5, threads = 0;
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const char* next = i + 1 < count ? words[i + 1] : "0";
    if (word == "--batch")
      options.batch = static_cast<std::uint32_t>(std::atoi(next)), ++i;
    else if (word == "--steps")
      options.steps = std::atoi(next), ++i;
    else if (word == "--threads")
      options.threads = std::atoi(next), ++i;
    else if (word == "--precision")
      options.precision = next, ++i;
    else
      options.network = word;
  }
  return options;
}

// A batch without a pipeline.
struct SyntheticBatch : Batch {
  std::vector<std::uint8_t> pixel_data;
  std::vector<AugmentationRecord> record_data;
  std::vector<std::int32_t> label_data;
  std::vector<float> weight_data;

  SyntheticBatch(std::uint32_t size, ImageShape shape, std::int32_t classes)
      : pixel_data(size * shape.bytes()), record_data(size), label_data(size), weight_data(size, 1.0F) {
    for (std::size_t i = 0; i < pixel_data.size(); ++i) pixel_data[i] = static_cast<std::uint8_t>(mix64(i));
    for (std::size_t i = 0; i < size; ++i) label_data[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(classes));
    count = size;
    weight = size;
    image = window = shape;
    pixels = pixel_data.data();
    records = record_data.data();
    labels = label_data.data();
    weights = weight_data.data();
  }
};

void initialise(const Network& network, Replica& replica) {
  for (int i = 0; i < static_cast<int>(network.parameters.size()); ++i) {
    Parameter parameter = network.parameters[static_cast<std::size_t>(i)];
    if (parameter.initialiser.rule == "whiten") parameter.initialiser.rule = "fan_in_uniform";
    replica.write(kValue, i, initial_values(parameter, 1));
  }
}

double run_steps(Replica& replica, const Ref<Batch>& batch, int steps) {
  StepSums sums;
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    replica.ingest(batch, 0, batch->count);
    replica.forward(static_cast<std::uint64_t>(step));
    replica.loss(testkit::cross_entropy(), batch->weight, sums);
    replica.backward([](int, Ref<Event>) {});
    for (int bucket = 0; bucket < static_cast<int>(replica.buckets().size()); ++bucket) {
      const auto number = static_cast<std::uint64_t>(step);
      replica.update(bucket, {{.updates_done = number, .learning_rate = 0.01}, number}, nullptr);
    }
  }
  replica.finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int run(const Options& options) {
  const auto network = testkit::network_from_file(options.network);
  DeviceOptions device_options;
  for (int core : available_cores()) {
    if (options.threads == 0 || static_cast<int>(device_options.cores.size()) < options.threads)
      device_options.cores.push_back(core);
  }
  cpu::CpuBackend backend;
  const auto device = backend.open(0, device_options);
  CompileOptions compile;
  compile.train_batch = options.batch;
  compile.precision = options.precision == "bf16" ? Precision::bf16 : Precision::fp32;
  compile.time_layers = true;
  compile.request.update = testkit::sgd(*network, 0.9, 0, true);
  const auto replica = device->compile(*network, compile);
  replica->start();
  initialise(*network, *replica);
  const auto classes = static_cast<std::int32_t>(network->output().elements());
  const ImageShape shape = network->input;
  const Ref<Batch> batch(new SyntheticBatch(options.batch, shape, classes));
  run_steps(*replica, batch, 1);
  const double seconds = run_steps(*replica, batch, options.steps);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double pixels = static_cast<double>(options.batch * shape.bytes()) / 1048576.0;
  fmt::print(
      "{} {} batch {}: {:.1f} images/s, {:.1f} ms a step; {:.1f} MiB planned, {:.1f} MiB resident at most with {:.1f} of "
      "pixels\n",
      network->name, options.precision, options.batch, options.batch * options.steps / seconds, 1e3 * seconds / options.steps,
      static_cast<double>(replica->memory_plan().total()) / 1048576.0, static_cast<double>(usage.ru_maxrss) / 1024.0, pixels);
  fmt::print("{}", layer_table(replica->layer_times()));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  if (options.network.empty()) {
    fmt::print(stderr, "usage: cpu_step_bench NETWORK.toml [--batch N] [--steps N] [--precision fp32|bf16] [--threads N]\n");
    return 2;
  }
  try {
    return run(options);
  } catch (const Error& error) {
    fmt::print(stderr, "cpu_step_bench: {}\n", error.what());
    return exit_code(error.kind());
  }
}
