#include "measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "config/plan.h"
#include "encoded_size.h"
#include "forecast.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "prepare/prepared_run.h"
#include "process_times.h"
#include "run/run.h"

namespace millrace {
namespace {

constexpr double kWarmUpSteps = 3;  // the first ones allocate, and fill the caches
constexpr std::uint64_t kSamplesLookedAt = 64;

// Collects looks until there are enough, and then stops the run. The run calls it on one thread.
class Watch : public RunObserver {
 public:
  Watch(const RunFacts& facts, const MeasureOptions& options) : facts_(facts), options_(options) {}

  void start(const RunStart&, RunControl& control) override { control_ = &control; }
  void telemetry(const TelemetryEvent& event) override {
    if (is_done_) return;
    Look now = look(event);
    if (now.steps < (looks_.empty() ? kWarmUpSteps : looks_.back().steps + 1)) return;  // long steps: a look for each
    looks_.push_back(std::move(now));
    const double seconds = looks_.back().at - looks_.front().at, steps = looks_.back().steps - looks_.front().steps;
    is_done_ = (seconds >= options_.seconds && steps >= static_cast<double>(options_.steps)) || seconds >= options_.most_seconds;
    if (is_done_) control_->stop();
  }

  std::vector<Look> take() { return std::move(looks_); }  // REQUIRES: the run is over

 private:
  Look look(const TelemetryEvent& event) const {
    Look look{.at = event.elapsed_seconds, .stages = {}, .waited_for_data = event.waited_for_data_seconds};
    look.stages.resize(facts_.stages.size());
    for (const StageTelemetry& stage : event.stages) {
      const auto found = std::ranges::find(facts_.stages, stage.name, &RunFacts::Stage::name);
      if (found != facts_.stages.end()) {
        look.stages[static_cast<std::size_t>(found - facts_.stages.begin())] = {stage.busy_seconds, stage.packets, stage.samples};
        continue;
      }
      look.submit_seconds += stage.busy_seconds;
      if (stage.on_device) look.device_samples += stage.samples;
      const bool sums = stage.replica < 0 && stage.samples == 0;  // it joins what replicas have computed
      if (sums) look.reduce_seconds += stage.device_seconds;
    }
    for (const DeviceTelemetry& device : event.devices) {
      look.device_seconds += device.compute_seconds + device.copy_seconds;
      look.exposed_seconds += device.communication_seconds;
    }
    const ProcessTimes times = process_times();
    look.io = times.io;
    look.data = times.data;
    look.device = times.device;
    const std::uint64_t done = facts_.devices.replicas > 0 ? look.device_samples : look.stages.back().samples;
    look.steps = static_cast<double>(done) / facts_.batch;
    return look;
  }

  const RunFacts& facts_;
  const MeasureOptions options_;
  RunControl* control_ = nullptr;
  std::vector<Look> looks_;
  bool is_done_ = false;
};

// The mean over some samples, which are spread over all.
double mean_source_pixels(Source& source) {
  double pixels = 0, images = 0;
  const std::uint64_t count = std::min(source.size(), kSamplesLookedAt);
  for (std::uint64_t i = 0; i < count; ++i) {
    Sample sample;
    sample.reset({0, i, i * source.size() / count, 0}, {}, {});
    try {
      source.read(sample);
    } catch (const Error&) {
      continue;  // the run says what is wrong with it
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
  DeviceFacts facts{.replicas = static_cast<int>(prepared.replicas.here().size())};
  if (facts.replicas == 0) return facts;
  const DeviceInfo& info = open.devices.front()->info();
  facts.backend = info.backend;
  // The one backend that computes on the host; replicas of all others wait for their devices.
  if (info.backend == "cpu") facts.threads = static_cast<int>(open.cores.replicas.front().size());
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
                 .batch = build.batch().size,
                 .buffers = build.batch().buffers,
                 .batch_is_chosen = build.chooses_batch(),
                 .chunk = static_cast<std::uint32_t>(run.chunk),
                 .stages = {},
                 .devices = devices_of(prepared)};
  for (const StagePlan& stage : build.plan().stages) {
    facts.stages.push_back({stage.name, stage.type->concurrency == Concurrency::serial});
    if (stage.type->role == StageType::Role::batcher) break;
  }
  if (prepared.pipeline.network) {
    const ImageShape& input = prepared.pipeline.network->input;
    facts.image_side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(input.height) * input.width)));
  }
  facts.source_pixels = mean_source_pixels(*build.source());
  return facts;
}

// It goes on until it is stopped.
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

Measurement measure(const ProfiledFile& what, const Registry& registry, const MeasureOptions& options) {
  const Pipeline pipeline = load(what, registry);
  RunOptions run_options = options_of(what);
  run_options.time_layers = options.layers;
  Measurement measured;
  const auto watch = std::make_shared<Watch>(measured.facts, options);
  run_options.hooks.observer = watch;
  const auto prepared = prepare(pipeline, registry, run_options);
  measured.facts = facts_of_run(*prepared);
  prepared->open_graphs();
  Run(*prepared).go();
  measured.looks = watch->take();
  if (measured.looks.size() < 3) {
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

}  // namespace millrace
