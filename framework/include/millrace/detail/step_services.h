// Services and hooks for stages of a training step. Part of stage.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class Batch;
class Sample;

// Calls from `batch`, `metrics`, `clip_gradients` and `optimizer` to the run, through RunServices. Thread-safe.
class StepServices {
 public:
  virtual ~StepServices() = default;

  struct StepReport;  // util/step_result.h
  virtual void report(const StepReport& report) = 0;

  // Delays the StepEvent until RunServices::scalar() brings this value. REQUIRES: the stage still holds the step's token.
  virtual void promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) = 0;

  // Like a scalar() that is not finite; `what`: "a gradient".
  virtual void not_finite(std::string_view graph, std::uint64_t step, std::string_view what) = 0;

  // Informs observers of a bad sample. `action`: "replaced", "skipped", or "fatal", which ends the run.
  virtual void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) = 0;

  // The learning rate's factor (RunControl), fixed when the step begins and the same for all replicas.
  virtual double rate_factor(std::uint64_t /*step*/) const { return 1; }
};

// Overrides for stages that work on devices or decide about updates.
class StepHooks {
 public:
  virtual ~StepHooks() = default;

  // Called for a stepwise stage before process(): the weight of its replica's share of the coming batch, for each loss. The graph
  // adds these, in order of replicas, over all replicas of all processes; the sums arrive as Packet::weights. Thread-safe.
  virtual std::vector<double> weigh(const Batch& /*batch*/) const { return {}; }

  // Time that devices have spent on this stage's submissions since it was made; zeros if process() does all the work.
  // Thread-safe.
  struct DeviceWork {
    double seconds = 0;
    std::uint64_t samples = 0;
    double ago = 0;  // seconds since the last of them were complete
  };
  virtual DeviceWork device_work() const { return {}; }

  // True if steps with gradients that are not finite update nothing after this stage: it then sets GradientBucket::scale to 0,
  // and reports the value that is not finite (RunServices::scalar). A run with on_nan = "skip" needs such a stage.
  virtual bool skips_nonfinite_steps() const { return false; }

  // Names of the metrics that a sink reports for each pass (RunServices::figure): run.best, [stop] and [plateau] may name them.
  virtual std::vector<std::string> reported_figures() const { return {}; }
};

}  // namespace millrace
