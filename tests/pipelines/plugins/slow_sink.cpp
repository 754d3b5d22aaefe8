// A sink of predictions that sleeps over each share, and refuses one that is out of order. Reports the first one on standard
// error.
#include <millrace/batch.h>
#include <millrace/error.h>
#include <millrace/plugin.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace {

class SlowSink : public millrace::Stage {
 public:
  struct Params {
    std::int64_t milliseconds = 20;
  };
  static void describe(millrace::StageDescription<Params>& d) {
    d.name("slow_sink").text("Sleeps over predictions.").input(millrace::payload::kPredictions).serial();
    d.params.add("milliseconds", &Params::milliseconds).text("of sleep");
  }
  SlowSink(const Params& params, const millrace::StageSite&) : pause_(params.milliseconds) {}
  void process(int, millrace::Packet packet, millrace::Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }

 private:
  void write(const millrace::Predictions& share) {
    if (next_ == 0) std::fputs("predictions arrive\n", stderr);
    for (std::uint32_t i = 0; i < share.count; ++i) {
      const std::uint64_t position = share.samples[i].key.position;
      if (position != next_++) millrace::fail(millrace::ErrorKind::run, "position {} instead of {}", position, next_ - 1);
    }
    std::this_thread::sleep_for(pause_);
  }
  const std::chrono::milliseconds pause_;
  std::uint64_t next_ = 0;
  millrace::PredictionLine line_{[this](const millrace::Predictions& share) { write(share); }};
};

}  // namespace

MILLRACE_PLUGIN("slow_sink", "1.0", "A sink that takes its time.") { registry.add_stage<SlowSink>(); }
