// A source and a stage with given times: used by tools/bench/what_if_pair.py to check predictions.
#include <ctime>

#include <chrono>
#include <cstring>
#include <thread>

#include "millrace/plugin.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace {

using namespace millrace;

// Grey tiles with a simulated storage delay. Nothing is read.
class Tiles : public Source {
 public:
  struct Params {
    SourceParams sampling;
    std::int64_t count = 100'000, side = 32, latency = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("tiles").text("Grey tiles, after a delay.");
    d.params.add("count", &Params::count).range(1).text("how many");
    d.params.add("side", &Params::side).range(1, 1024).unit("pixels").text("height and width");
    d.params.add("latency", &Params::latency).range(0).unit("microseconds").text("sleep of a thread per sample");
  }
  Tiles(const Params& params, const StageSite&) : Source(params.sampling), params_(params) {}

  void open() override {}
  std::uint64_t size() const override { return static_cast<std::uint64_t>(params_.count); }
  std::size_t largest_encoded() const override { return shape().bytes(); }
  std::vector<std::string> classes() const override { return {"even", "odd"}; }
  std::int32_t label(std::uint64_t index) const override { return static_cast<std::int32_t>(index % 2); }
  void read(Sample& sample) override {
    if (params_.latency > 0) std::this_thread::sleep_for(std::chrono::microseconds(params_.latency));
    sample.url = "tile";
    sample.offset = sample.key.index;
    sample.label = label(sample.key.index);
    std::memset(sample.encoded.resize(shape().bytes()), static_cast<int>(sample.key.index % 251), shape().bytes());
    sample.decoded = shape();
  }

 private:
  ImageShape shape() const { return {static_cast<std::int32_t>(params_.side), static_cast<std::int32_t>(params_.side), 3}; }
  const Params params_;
};

// Uses this much time of a core for each image, whatever else runs on it.
class Spin : public SampleTransform {
 public:
  struct Params {
    double time = 100;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("spin").text("Computes for a while.");
    d.params.add("time", &Params::time).range(0).unit("microseconds").text("core time per image");
  }
  Spin(const Params& params, const StageSite&) : seconds_(params.time * 1e-6) {}
  void process(Sample&, Draw&) override {
    const double end = core_seconds() + seconds_;
    while (core_seconds() < end) continue;
  }

 private:
  static double core_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  const double seconds_;
};

}  // namespace

MILLRACE_PLUGIN("what_if_stages", "1.0", "Stages with given times.") {
  registry.add_stage<Tiles>();
  registry.add_stage<Spin>();
}
