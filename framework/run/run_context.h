// What the parts of a run work with. All of it outlives them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "prepare/prepared_run.h"
#include "run/step_barrier.h"
#include "weight_files/weights_writer.h"

namespace millrace {

struct RunContext {
  PreparedRun& prepared;
  const std::vector<std::unique_ptr<StepBarrier>>& barriers;  // by graph; empty: this process is alone
  WeightsWriter* weights = nullptr;                           // null without a network
  Checkpointer* checkpointer = nullptr;                       // null: the run has no checkpoints

  const Pipeline& pipeline() const { return prepared.pipeline; }
  const RunOptions& options() const { return prepared.options; }
  const Builds& builds() const { return prepared.builds; }
  const GraphBuild& main() const { return prepared.main(); }
  Graph& graph(std::size_t index) const { return *prepared.graphs[index]; }
  const Replicas& replicas() const { return prepared.replicas.here(); }
  const StepRange& steps() const { return prepared.steps; }
  RunLog& log() const { return prepared.audience.log(); }
  RunFindings& findings() const { return log().findings(); }
  Observers& observers() const { return prepared.audience.observers(); }
  Requests& requests() const { return prepared.audience.requests(); }
  void doing(std::string what) const {
    if (options().hooks.activity) options().hooks.activity->set(std::move(what), true);
  }
};

}  // namespace millrace
