// What stages of a training step tell the run, and what they are asked, besides what every stage is. Part of stage.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class Batch;
class Sample;

// What a run is told by `batch`, `metrics`, `clip_gradients` and `optimizer`, through RunServices. Thread-safe.
class StepServices {
 public:
  virtual ~StepServices() = default;

  struct StepReport;  // util/step_result.h
  virtual void report(const StepReport& report) = 0;

  // The StepEvent waits until RunServices::scalar() brings this figure. REQUIRES: the stage still holds the step's token.
  virtual void promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) = 0;

  // As a scalar() that is not finite; `what`: "a gradient".
  virtual void not_finite(std::string_view graph, std::uint64_t step, std::string_view what) = 0;

  // Tells observers of a bad sample. `action`: "replaced", "skipped", or "fatal", which ends the run.
  virtual void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) = 0;

  // The factor of the learning rate (RunControl), known when the step begins and the same for all replicas.
  virtual double rate_factor(std::uint64_t /*step*/) const { return 1; }
};

// What a Stage overrides that works on devices or decides about updates.
class StepHooks {
 public:
  virtual ~StepHooks() = default;

  // A stepwise stage is asked before process() what its replica's share of the coming batch weighs, for each loss. The graph adds
  // these up, in order of replicas, over all replicas of all processes; the sums come as Packet::weights. Any thread.
  virtual std::vector<double> weigh(const Batch& /*batch*/) const { return {}; }

  // How long devices have worked on what this stage submitted since it was made; zeros where process() does it all. Any thread.
  struct DeviceWork {
    double seconds = 0;
    std::uint64_t samples = 0;
    double ago = 0;  // seconds since the last of them were complete
  };
  virtual DeviceWork device_work() const { return {}; }

  // Steps whose gradients are not finite update nothing after this stage: it sets GradientBucket::scale to 0, and reports the
  // number that is not finite (RunServices::scalar). A run with on_nan = "skip" needs such a stage.
  virtual bool leaves_out_updates() const { return false; }

  // The metrics that a sink reports of each pass (RunServices::figure), by name: run.best, [stop] and [plateau] may name them.
  virtual std::vector<std::string> reported_figures() const { return {}; }
};

}  // namespace millrace
