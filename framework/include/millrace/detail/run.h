// What a running pipeline offers its stages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "millrace/backend/backend.h"
#include "millrace/sample.h"

namespace millrace {

// Thread-safe. Given to stages as StageSite::run.
class RunServices {
 public:
  virtual ~RunServices() = default;

  // One step's result over all replicas; steps may be reported out of order.
  struct StepReport {
    std::string_view graph;
    std::uint64_t epoch = 0;
    std::uint64_t step = 0;
    std::uint64_t stream_hash = 0;
    double samples = 0;                // with weight
    std::shared_ptr<const Loss> loss;  // what makes figures of the sums
    StepSums sums;
    std::map<std::string, StepSums> auxiliary = {};  // of losses that are minimised beside it, by name
  };
  virtual void report(const StepReport& report) = 0;

  // A figure of one step, such as "learning_rate"; observers are told it with the step (StepEvent::scalars).
  virtual void scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) = 0;
  // scalar() will bring this figure when a device knows it: the StepEvent waits for it. Said before the stage lets go of the
  // step's token.
  virtual void promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) = 0;

  // A number of this step that scalar() does not bring is not finite: "a gradient". It is treated as such a figure is.
  virtual void not_finite(std::string_view graph, std::uint64_t step, std::string_view what) = 0;

  // Tells observers of a bad sample, which the ledger quarantine.jsonl then names. `action`: "replaced", "skipped", "fatal" (the
  // run ends with it).
  virtual void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) = 0;

  virtual const std::filesystem::path& folder() const = 0;  // of this run; empty when it writes none
  virtual void warn(std::string_view message) = 0;          // tells observers (WarningEvent)

  // What the learning rate of this step is multiplied by, as RunControl::rate_factor() asked for. Known when the step begins, and
  // the same for all replicas.
  virtual double rate_factor(std::uint64_t /*step*/) const { return 1; }

  // A graph's first batches are tried before the first epoch: what comes now is not counted, and comes again.
  virtual bool rehearses() const { return false; }
};

}  // namespace millrace
