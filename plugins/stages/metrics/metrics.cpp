#include "metrics.h"

#include <atomic>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"

namespace millrace {

// One step. The last event to complete reports.
struct Metrics::Joint {
  std::vector<Ref<StepResult>> results;  // by replica
  std::size_t arrived = 0;
  std::atomic<bool> has_failed = false;  // a device has: nothing is reported

  void report(const StageSite& site) const {
    RunServices::StepReport report{.graph = site.graph,
                                   .epoch = results[0]->epoch,
                                   .step = results[0]->step,
                                   .stream_hash = results[0]->stream_hash,
                                   .loss = results[0]->loss,
                                   .sums = {}};
    for (const Ref<StepResult>& result : results) {
      report.samples += result->samples;
      for (const StepSums& sums : result->sums) report.sums.add(sums);
      for (const auto& [name, pieces] : result->auxiliary) {
        for (const StepSums& sums : pieces) report.auxiliary[name].add(sums);
      }
    }
    site.run->report(report);
  }
};

void Metrics::describe(StageDescription<Params>& d) {
  d.name("metrics").text("Sums the loss and its metrics over all replicas, and reports them.");
  d.input(payload::kStepResult).serial();
}

Metrics::Metrics(const Params&, const StageSite& site) : site_(site) {}

void Metrics::process(int, Packet packet, Output& output) {
  Ref<StepResult> result(static_cast<StepResult*>(packet.payload.get()));
  std::shared_ptr<Joint>& slot = open_[result->step];
  if (!slot) {
    slot = std::make_shared<Joint>();
    slot->results.resize(static_cast<std::size_t>(result->replicas));
  }
  const std::uint64_t step = result->step;
  const auto replica = static_cast<std::size_t>(result->replica);
  slot->results[replica] = std::move(result);
  if (++slot->arrived < slot->results.size()) return;

  std::shared_ptr<Joint> joint = std::move(slot);
  open_.erase(step);
  auto hold = std::make_shared<Output::Hold>(output);
  auto waiting = std::make_shared<std::atomic<std::size_t>>(joint->results.size());
  for (const Ref<StepResult>& arrived : joint->results) {
    arrived->ready->then([this, joint, waiting, hold, &output](const Error* failure) mutable {
      if (failure != nullptr) {
        joint->has_failed = true;
        output.fail(*failure);
      }
      if (waiting->fetch_sub(1) == 1 && !joint->has_failed) {
        try {
          joint->report(site_);
        } catch (...) {
          output.fail(current_error());
        }
      }
      joint = nullptr;  // breaks a cycle: it holds the event, which may hold this function
      hold = nullptr;
    });
  }
}

}  // namespace millrace

MILLRACE_PLUGIN("metrics", "1.0", "Results of a step: loss and accuracy.") { registry.add_stage<millrace::Metrics>(); }
