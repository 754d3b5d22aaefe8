#include "calibration_run.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>

#include "config/plan.h"
#include "forecast.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/util/host_cores.h"
#include "prepare/devices.h"
#include "process_times.h"
#include "run/bottleneck.h"
#include "run/prepare.h"
#include "run/runner.h"

namespace millrace {

namespace {

using Bytes = std::span<const std::uint8_t>;

std::int32_t number(Bytes bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
  return static_cast<std::int32_t>(std::min(value, std::uint32_t{1} << 20));
}

// PNG (RFC 2083): the first chunk is IHDR, which begins with width and height.
ImageShape png_size(Bytes bytes) {
  if (bytes.size() < 24) return {};
  return {number(bytes, 20, 4), number(bytes, 16, 4), 0};
}

// JPEG (ITU-T T.81, B.2.2): a frame header contains its length, a precision, height and width. SOF0 to SOF15 without DHT, JPG,
// DAC.
ImageShape jpeg_size(Bytes bytes) {
  for (std::size_t at = 2; at + 9 <= bytes.size() && bytes[at] == 0xFF;) {
    const std::uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {
      ++at;  // padding
      continue;
    }
    const bool is_frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (is_frame) return {number(bytes, at + 5, 2), number(bytes, at + 7, 2), 0};
    at += 2 + static_cast<std::size_t>(number(bytes, at + 2, 2));
  }
  return {};
}

constexpr double kWarmUpSteps = 3;  // the first ones allocate, and fill the caches
constexpr std::uint64_t kSamplesLookedAt = 64;

// Binds this thread, and the threads that it starts, to these cores while it lives.
class OnCores {
 public:
  explicit OnCores(const std::vector<int>& cores) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t now;
    CPU_ZERO(&now);
    for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &now);
    ::sched_setaffinity(0, sizeof now, &now);
  }
  ~OnCores() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnCores(const OnCores&) = delete;
  OnCores& operator=(const OnCores&) = delete;

 private:
  cpu_set_t before_{};
};

// Collects windows until there are enough, then stops the run. The run calls it on one thread.
class Watch : public RunObserver {
 public:
  Watch(const RunFacts& facts, const CalibrationOptions& options) : facts_(facts), options_(options) {}

  void start(const RunStart&, RunControl& control) override { control_ = &control; }
  void telemetry(const TelemetryEvent& event) override {
    if (is_done_) return;
    const double steps = window_of(event).steps;
    if (steps < (began_ ? steps_ + 1 : kWarmUpSteps)) return;  // long steps: one window each
    const ProcessTimes times = process_times();
    if (std::exchange(began_, true)) {
      Window& window = windows_.emplace_back(window_of(between(before_, event)));
      window.io = times.io, window.data = times.data, window.device = times.device;
      window.io -= times_.io, window.data -= times_.data, window.device -= times_.device;
      window.other_seconds = std::max(0.0, times.others - times_.others);
      seconds_ += window.seconds;
      measured_steps_ += window.steps;
    }
    before_ = event;
    times_ = times;
    steps_ = steps;
    const bool is_enough = seconds_ >= options_.seconds && measured_steps_ >= static_cast<double>(options_.steps);
    is_done_ = is_enough || seconds_ >= options_.most_seconds;
    if (is_done_) control_->stop();
  }

  std::vector<Window> take() { return std::move(windows_); }  // REQUIRES: the run is over

 private:
  // Without thread times.
  Window window_of(const TelemetryEvent& done) const {
    Window window{.seconds = done.elapsed_seconds, .stages = {}, .waited_for_data = done.waited_for_data_seconds};
    window.stages.resize(facts_.stages.size());
    for (const StageTelemetry& stage : done.stages) {
      const auto found = std::ranges::find(facts_.stages, stage.name, &RunFacts::Stage::name);
      if (found != facts_.stages.end()) {
        window.stages[static_cast<std::size_t>(found - facts_.stages.begin())] = {stage.busy_seconds, stage.packets,
                                                                                  stage.samples, stage.computing_seconds};
        continue;
      }
      window.submit_seconds += stage.computing_seconds;
      if (stage.on_device) window.device_samples += stage.samples;
      const bool sums = stage.replica < 0 && stage.samples == 0;  // it joins the replicas' results
      if (sums) window.reduce_seconds += stage.device_seconds;
    }
    for (const DeviceTelemetry& device : done.devices) {
      if (device.rank != done.devices.front().rank) continue;
      window.device_seconds += device.compute_seconds + device.copy_seconds;
      window.exposed_seconds += device.communication_seconds;
    }
    const std::uint64_t samples = facts_.devices.replicas > 0 ? window.device_samples : window.stages.back().samples;
    window.steps = static_cast<double>(samples) / facts_.batch_here;
    return window;
  }

  const RunFacts& facts_;
  const CalibrationOptions options_;
  RunControl* control_ = nullptr;
  bool began_ = false, is_done_ = false;  // began_: the warm-up is over
  TelemetryEvent before_;                 // the end of the last window
  ProcessTimes times_;
  double steps_ = 0, measured_steps_ = 0, seconds_ = 0;
  std::vector<Window> windows_;
};

// The mean over some samples, spread over all.
double mean_source_pixels(Source& source) {
  double pixels = 0, images = 0;
  const std::uint64_t count = std::min(source.size(), kSamplesLookedAt);
  for (std::uint64_t i = 0; i < count; ++i) {
    Sample sample;
    sample.reset({0, i, i * source.size() / count, 0}, {}, {});
    try {
      source.read(sample);
    } catch (const Error&) {
      continue;  // the run reports the error
    }
    const bool is_decoded = sample.decoded.height > 0;
    const ImageShape shape = is_decoded ? sample.decoded : encoded_size({sample.encoded.data(), sample.encoded.size()});
    if (shape.height == 0) continue;
    pixels += static_cast<double>(shape.height) * shape.width;
    ++images;
  }
  return images > 0 ? pixels / images : 0;
}

DeviceFacts devices_of(const PreparedRun& prepared) {
  const OpenDevices& open = prepared.replicas.devices();
  DeviceFacts facts{.replicas = static_cast<int>(prepared.replicas.all()),
                    .here = static_cast<int>(prepared.replicas.here().size())};
  if (facts.replicas == 0) return facts;
  const DeviceInfo& info = open.devices.front()->info();
  facts.backend = info.backend;
  if (info.backend == kHostBackend) facts.threads = static_cast<int>(open.cores.replicas.front().size());
  facts.submits_ahead = facts.threads == 0;
  facts.may_use_bf16 = prepared.replicas.precision() == Precision::fp32 && info.native_bf16;
  facts.load = prepared.pipeline.run.load;
  for (const Bucket& bucket : prepared.replicas.here().front()->buckets()) {
    facts.bucket_bytes.push_back(static_cast<double>(bucket.elements * sizeof(float)));
  }
  return facts;
}

RunFacts facts_of_run(const PreparedRun& prepared) {
  const GraphBuild& build = prepared.main();
  const RunParams& run = prepared.pipeline.run;
  RunFacts facts{.graph = build.plan().name,
                 .cores = static_cast<int>(available_cores().size()),
                 .threads = prepared.data_threads(),
                 .io_threads = static_cast<int>(run.io_threads),
                 .threads_are_chosen = run.threads == 0,
                 .batch = build.data().batch.size,
                 .buffers = build.data().batch.buffers,
                 .batch_is_chosen = build.data().chooses_batch,
                 .chunk = static_cast<std::uint32_t>(run.chunk),
                 .stages = {},
                 .devices = devices_of(prepared)};
  facts.batch_here = facts.batch * part_of_batch(prepared);
  for (const StagePlan& stage : build.plan().stages) {
    facts.stages.push_back({stage.name, stage.type->concurrency == Concurrency::serial});
    if (stage.type->role == StageType::Role::batcher) break;
  }
  if (prepared.pipeline.network) {
    const ImageShape& input = prepared.pipeline.network->input;
    facts.image_side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(input.height) * input.width)));
  }
  facts.source_pixels = mean_source_pixels(*build.data().source);
  return facts;
}

// Runs until stopped.
Pipeline load(const ProfiledFile& what, const Registry& registry) {
  std::vector<std::string> overrides = what.overrides;
  overrides.emplace_back("observe.console.quiet=true");
  Pipeline pipeline = load_pipeline(what.file, overrides, registry);
  pipeline.run.epochs = 1e6;
  pipeline.stop = {};
  return pipeline;
}

RunOptions options_of(const ProfiledFile& what) {
  RunOptions options;
  options.devices = what.devices;
  options.graph = what.graph;
  options.only_main = true;
  return options;
}

}  // namespace

RunFacts facts_of(const ProfiledFile& what, const Registry& registry) {
  const Pipeline pipeline = load(what, registry);
  RunOptions options = options_of(what);
  options.only_check = true;
  return facts_of_run(*prepare(pipeline, registry, options));
}

double part_of_batch(const PreparedRun& prepared) {
  const OpenDevices& open = prepared.replicas.devices();
  const auto here = static_cast<std::ptrdiff_t>(prepared.replicas.here().size());
  const std::vector<double>& load = prepared.pipeline.run.load;
  if (here == 0) return 1;
  if (load.empty()) return static_cast<double>(here) / static_cast<double>(prepared.replicas.all());
  const auto first = load.begin() + static_cast<std::ptrdiff_t>(open.first_replica);
  return std::accumulate(first, first + here, 0.0) / std::accumulate(load.begin(), load.end(), 0.0);
}

Calibration calibrate(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options) {
  const Pipeline pipeline = load(what, registry);
  RunOptions run_options = options_of(what);
  run_options.time_layers = options.layers;
  run_options.only_steps = options.only_steps;
  run_options.group = options.group;
  Calibration measured;
  const auto watch = std::make_shared<Watch>(measured.facts, options);
  run_options.hooks.observer = watch;
  const auto prepared = prepare(pipeline, registry, run_options);
  measured.facts = facts_of_run(*prepared);
  prepared->open_graphs();
  run_once(*prepared);
  measured.windows = watch->take();
  if (measured.windows.size() < 2 && run_options.is_first()) {
    fail(ErrorKind::usage, "'{}' ended before anything was measured: graph '{}' has too few steps", what.file,
         measured.facts.graph);
  }
  if (pipeline.network && measured.facts.devices.replicas > 0) {
    const Replica& replica = *prepared->replicas.here().front();
    const auto times = options.layers ? prepared->replicas.here().front()->layer_times() : std::vector<LayerTime>();
    measured.facts.devices.bucket_ready = bucket_ready(*pipeline.network, replica.buckets(), times);
  }
  return measured;
}

namespace {

StepsAlone steps_alone(const ProfiledFile& what, const Registry& registry, CalibrationOptions options, const RunFacts& facts,
                       const StepShare& share) {
  const std::vector<int> all = available_cores();
  ProfiledFile alone = what;
  alone.devices = fmt::format("{}*{}", facts.devices.backend, share.replicas);
  alone.overrides.push_back(fmt::format("{}.{}.size={}", facts.graph, facts.stages.back().name, share.batch));
  options.only_steps = true;
  const OnCores bound({all.begin(), all.begin() + share.cores});
  const Calibration measured = calibrate(alone, registry, options);
  const SimulatedStep step = graph_of(measured.facts, measured.windows).step;
  return {share, step.sample_seconds, step.device_threads};
}

}  // namespace

ImageShape encoded_size(std::span<const std::uint8_t> bytes) {
  static constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
  if (bytes.size() >= 4 && std::equal(kPng.begin(), kPng.end(), bytes.begin())) return png_size(bytes);
  if (bytes.size() >= 2 && bytes[0] == 0xFF && bytes[1] == 0xD8) return jpeg_size(bytes);
  return {};
}

std::vector<StepsAlone> calibrate_steps(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                                        const RunFacts& facts, const std::vector<StepShare>& asked) {
  std::vector<StepsAlone> found;
  if (facts.devices.threads == 0 || asked.empty()) return found;
  std::vector<StepShare> wanted = asked;
  wanted.push_back({facts.cores, facts.devices.replicas, facts.batch});
  for (const StepShare& share : wanted) {
    const bool is_known = std::ranges::find(found, share, &StepsAlone::share) != found.end();
    const bool has_images = share.batch >= static_cast<std::uint32_t>(share.replicas);
    if (is_known || !has_images || share.cores > static_cast<int>(available_cores().size())) continue;
    found.push_back(steps_alone(what, registry, options, facts, share));
  }
  return found;
}

}  // namespace millrace
