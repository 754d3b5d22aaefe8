// Measures a device's training speed on one repeated synthetic batch: no files, no decoding, no augmentation.
//
//   gpu_step_bench NETWORK.toml [--backend cuda] [--batch 256] [--precision bf16] [--steps 40] [--from-host] [--profile]
//                  [--json] [--serve] [--layers]
//
// A step is complete: ingest, forward, loss, backward, update, submitted like a run's stages do. The images are bytes on the
// device, as with `cache` and `device = true`; with --from-host they cross the bus in each step. Prints the median over rounds of
// --steps steps. --serve waits for a line on standard input before each round and prints one JSON line after it, so that another
// program can alternate with this one. --layers times each layer instead and prints a line for each of its passes: milliseconds
// per step, the minimum bytes moved, and the resulting rates.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/filled_buckets.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"

using namespace millrace;

namespace {

struct Options {
  std::string network, backend = "cuda", precision = "bf16", tune = "heuristic";
  int device = 0, batch = 256, steps = 40, rounds = 5, warm_up = 10;
  bool graphs = true, deterministic = true, from_host = false, profile = false, json = false, serve = false, layers = false;
};

constexpr const char* kUsage =
    "usage: gpu_step_bench NETWORK.toml [options]\n"
    "  --backend NAME (cuda)   --device INDEX (0)      --batch N (256)       --precision fp32|tf32|bf16 (bf16)\n"
    "  --steps N (40)          --rounds N (5)          --warm-up N (10)      --tune heuristic|measure (heuristic)\n"
    "  --no-graphs             --nondeterministic      --from-host           --profile --json    --serve\n"
    "  --layers\n";

Options parse(int count, char** words) {
  Options options;
  const auto next = [&](int& i) -> std::string {
    if (i + 1 >= count) fail(ErrorKind::usage, "{} needs a value\n{}", words[i], kUsage);
    return words[++i];
  };
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--backend")
      options.backend = next(i);
    else if (word == "--device")
      options.device = std::stoi(next(i));
    else if (word == "--batch")
      options.batch = std::stoi(next(i));
    else if (word == "--precision")
      options.precision = next(i);
    else if (word == "--steps")
      options.steps = std::stoi(next(i));
    else if (word == "--rounds")
      options.rounds = std::stoi(next(i));
    else if (word == "--warm-up")
      options.warm_up = std::stoi(next(i));
    else if (word == "--tune")
      options.tune = next(i);
    else if (word == "--no-graphs")
      options.graphs = false;
    else if (word == "--nondeterministic")
      options.deterministic = false;
    else if (word == "--from-host")
      options.from_host = true;
    else if (word == "--profile")
      options.profile = true;
    else if (word == "--json")
      options.json = true;
    else if (word == "--serve")
      options.serve = true;
    else if (word == "--layers")
      options.layers = true;
    else if (word.starts_with("--") || !options.network.empty())
      fail(ErrorKind::usage, "unknown argument '{}'\n{}", word, kUsage);
    else
      options.network = word;
  }
  if (options.network.empty()) fail(ErrorKind::usage, "a network file is needed\n{}", kUsage);
  if (options.batch < 1 || options.steps < 1 || options.rounds < 1) fail(ErrorKind::usage, "figures must be above 0\n{}", kUsage);
  return options;
}

Precision precision_of(const std::string& text) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    if (text == to_string(precision)) return precision;
  }
  fail(ErrorKind::usage, "--precision {}: choose fp32, tf32 or bf16", text);
}

std::shared_ptr<Backend> backend_of(const Registry& registry, const std::string& name) {
  const BackendType* type = registry.backends().find(name);
  if (type == nullptr) {
    fail(ErrorKind::usage, "no plugin provides backend '{}'; {}", name, fmt::join(load_errors(registry), "; "));
  }
  std::shared_ptr<Backend> backend = type->create();
  if (backend->devices().empty())
    fail(ErrorKind::device, "backend '{}' has no usable device: {}", name, backend->unavailable_reason());
  return backend;
}

class Bench {
 public:
  Bench(const Options& options, Backend& backend)
      : options_(options), network_(testkit::network_from_file(options.network)), device_(backend.open(options.device, {})) {
    CompileOptions compile;
    compile.train_batch = static_cast<std::uint32_t>(options.batch);
    compile.precision = precision_of(options.precision);
    compile.tune = options.tune == "measure" ? Tune::measure : Tune::heuristic;
    compile.graphs = options.graphs;
    compile.deterministic = options.deterministic;
    compile.time_layers = options.layers;
    if (!options.from_host) compile.resident_sets = {{"synthetic", compile.train_batch, network_->input}};
    compile.request.update = testkit::sgd(*network_, 0.9, 1e-4);
    replica_ = device_->compile(*network_, compile);
    replica_->start();
    testkit::randomise(*network_, *replica_, 1);
    make_batch();
  }
  ~Bench() { replica_.reset(); }  // waits for work that reads the pixels

  // Seconds for `steps` steps, until the device has finished.
  double run(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step();
    replica_->finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const Network& network() const { return *network_; }
  std::vector<LayerTime> layer_times() { return replica_->layer_times(); }
  Device& device() { return *device_; }
  double planned_mib() const { return static_cast<double>(replica_->memory_plan().total()) / 1048576; }
  double loss() const { return sums_.loss() / std::max(sums_.weight(), 1.0); }

 private:
  void make_batch() {
    batch_ = testkit::make_batch(static_cast<std::uint32_t>(options_.batch), network_->input);
    testkit::fill_at_random(*batch_, static_cast<std::int32_t>(network_->output().elements()), 2);
    const std::size_t bytes = batch_->count * network_->input.bytes();
    pixels_ = device_->host_buffer(bytes);
    std::copy_n(batch_->pixels, bytes, pixels_.get());
    batch_->pixels = pixels_.get();
    if (!options_.from_host) batch_->resident_set = 0;
  }

  void step() {
    replica_->ingest(batch_, 0, batch_->count);
    replica_->forward(number_);
    replica_->loss(testkit::cross_entropy(), batch_->weight, sums_);
    gpu::FilledBuckets filled(replica_->buckets().size());
    replica_->backward(filled.callback());
    UpdateStep update;
    update.step = number_++;
    update.learning_rate = 1e-3;
    for (int bucket = 0; bucket < static_cast<int>(replica_->buckets().size()); ++bucket) {
      replica_->update(bucket, update, filled.wait_for(bucket));
    }
  }

  const Options& options_;
  std::shared_ptr<const Network> network_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<std::uint8_t[]> pixels_;
  Ref<Batch> batch_;
  StepSums sums_;
  std::uint64_t number_ = 0;
  std::unique_ptr<Replica> replica_;
};

// The backend's profile after the work, including its idle time if it measures that.
std::string profile_of(Device& device) {
  std::string text;
  for (const auto& [name, value] : device.info().details) {
    if (name.find("idle") != std::string::npos) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

void print_round(const Options& options, Bench& bench, double seconds) {
  const double rate = options.batch * options.steps / seconds;
  fmt::print(
      "{{\"program\": \"millrace\", \"images_per_second\": {:.2f}, \"seconds\": {:.6f}, \"steps\": {}, \"batch\": {}, "
      "\"precision\": \"{}\", \"loss\": {:.5f}, \"device\": \"{}\", \"planned_mib\": {:.1f}}}\n",
      rate, seconds, options.steps, options.batch, options.precision, bench.loss(), bench.device().info().name,
      bench.planned_mib());
  std::fflush(stdout);
}

void serve(const Options& options, Bench& bench) {
  fmt::print("{{\"ready\": true}}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) print_round(options, bench, bench.run(options.steps));
}

// Minimum reads and writes of a forward pass: inputs, output and parameters, once each.
double least_bytes(const Network& network, const Layer& layer, const Options& options) {
  std::int64_t values = layer.output.elements(), weights = 0;
  for (const Shape& shape : layer.input_shapes) values += shape.elements();
  for (const int parameter : layer.parameters)
    weights += network.parameters[static_cast<std::size_t>(parameter)].shape.elements();
  return static_cast<double>(options.batch * values + weights) * (options.precision == "bf16" ? 2 : 4);
}

// Fused layers are included in another one's times, but not in its bytes. Backward does forward's work twice: for the gradients
// of inputs and of weights.
void print_layers(const Options& options, Bench& bench) {
  const Network& network = bench.network();
  for (const LayerTime& time : bench.layer_times()) {
    const auto layer =
        std::find_if(network.layers.begin(), network.layers.end(), [&](const Layer& l) { return l.name == time.layer; });
    if (layer == network.layers.end() || time.passes == 0) continue;
    for (const auto& [pass, total, times] : {std::tuple("forward", time.forward, 1), std::tuple("backward", time.backward, 2)}) {
      const double seconds = total / static_cast<double>(time.passes);
      if (seconds <= 0) continue;
      const double gigabytes = times * 1e-9 * least_bytes(network, *layer, options);
      const double teraflops = times * 2e-12 * static_cast<double>(layer->multiply_adds) * options.batch;
      fmt::print(
          "{{\"layer\": \"{}\", \"op\": \"{}\", \"pass\": \"{}\", \"ms\": {:.4f}, \"gb\": {:.4f}, \"gb_s\": {:.1f}, "
          "\"tflop_s\": {:.2f}, \"detail\": \"{}\"}}\n",
          time.layer, layer->op, pass, 1e3 * seconds, gigabytes, gigabytes / seconds, teraflops / seconds, time.detail);
    }
  }
}

int run(const Options& options) {
  std::string variable = "MILLRACE_" + options.backend + "_PROFILE";
  std::transform(variable.begin(), variable.end(), variable.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (options.profile) setenv(variable.c_str(), "1", 0);  // NOLINT(concurrency-mt-unsafe): no other threads yet
  Registry registry;
  load_all_plugins(registry);
  const std::shared_ptr<Backend> backend = backend_of(registry, options.backend);
  Bench bench(options, *backend);
  if (options.warm_up > 0) bench.run(options.warm_up);
  if (options.serve) {
    serve(options, bench);
    return 0;
  }
  if (options.layers) {
    bench.run(options.steps);
    print_layers(options, bench);
    return 0;
  }
  std::vector<double> seconds;
  for (int round = 0; round < options.rounds; ++round) {
    seconds.push_back(bench.run(options.steps));
    if (options.json) print_round(options, bench, seconds.back());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  if (!options.json) {
    fmt::print(
        "{} on {}, batch {}, {}: {:.1f} images/s, {:.2f} ms a step (median of {} rounds; slowest {:.1f} images/s); {:.1f} MiB "
        "planned\n",
        bench.network().name, bench.device().info().name, options.batch, options.precision,
        options.batch * options.steps / median, 1e3 * median / options.steps, options.rounds,
        options.batch * options.steps / seconds.back(), bench.planned_mib());
  }
  if (options.profile)
    fmt::print(stderr, "{}\n",
               profile_of(bench.device()).empty() ? "the backend reports no idle time" : profile_of(bench.device()));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(parse(count, words));
  } catch (const Error& error) {
    fmt::print(stderr, "gpu_step_bench: {}\n", error.what());
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_step_bench: {}\n{}", error.what(), kUsage);
    return 2;
  }
}
