// A checked pipeline that is ready to run: devices, replicas, stages, their memory, and the first step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/changes.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/resume.h"
#include "checkpoint/run_places.h"
#include "config/plan.h"
#include "graph/graph.h"
#include "millrace/plugin.h"
#include "prepare/audience.h"
#include "prepare/budget.h"
#include "prepare/graph_build.h"
#include "prepare/image_summary.h"
#include "prepare/inference_recipe.h"
#include "prepare/initial_weights.h"
#include "prepare/replica_set.h"
#include "prepare/run_options.h"
#include "prepare/step_range.h"
#include "weights/replica_view.h"

namespace millrace {

// Made by prepare() (run/prepare.h), which sets its fields in order. Later fields may refer to earlier ones.
struct PreparedRun {
  PreparedRun(const Pipeline& checked, const Registry& plugins, RunOptions asked);
  ~PreparedRun();  // leaves the group, so that other processes do not wait for this one
  PreparedRun(const PreparedRun&) = delete;
  PreparedRun& operator=(const PreparedRun&) = delete;

  Pipeline adapted;  // the checked pipeline; in a resumed run with the original rule for best weights
  const Pipeline& pipeline = adapted;
  const Registry& registry;
  RunOptions options;
  Audience audience;
  RunPlaces places;
  std::optional<ResumePoint> resume_point;  // the checkpoint to resume; empty: a new run
  InitialWeights weights;
  ReplicaSet replicas;
  Builds builds;
  std::optional<InferenceRecipe> recipe;         // for the weights that this run saves; precision and batch as in the file
  std::optional<InferenceRecipe> stored_recipe;  // that of the initial weights, if it is compared with `recipe`
  std::optional<ImageSummary> images;            // summary of the training images, likewise; set when the run begins
  std::string network_text;                      // the network's file with its base files
  // Hashes of each source's samples ("train.read"), as far as rank 0 read them.
  std::map<std::string, SavedState::Contents> contents;
  CountedWeights class_weights;  // GraphBuild::set_class_weights()
  std::string batch_choice;      // for an automatic batch size: a line with the choice and its reason
  std::string load_choice;       // likewise for the shares of replicas
  StepRange steps;               // the main graph's
  std::unique_ptr<Workers> workers;
  std::vector<std::unique_ptr<Graph>> graphs;  // one for each build, once open_graphs() has made them

  const GraphBuild& main() const { return *builds.front(); }
  // The plan of the main graph, which --graph may select.
  const GraphPlan& stepping_graph() const {
    return options.graph.empty() ? pipeline.graphs.front() : *pipeline.graph(options.graph);
  }
  int data_threads() const;
  bool saves_checkpoints() const;                                                  // CheckpointPlan::wanted, and the graph trains
  std::vector<MemoryItem> memory() const { return memory_with(replicas.here()); }  // upper bound of the run's memory
  std::vector<MemoryItem> memory_with(const Replicas& candidates) const;           // with these replicas
  std::size_t host_memory() const { return host_memory_for(pipeline.run.memory, replicas.devices().processes_here); }
  ReplicaView view() const;                              // REQUIRES: there is a network
  std::map<std::string, SavedState::Data> data() const;  // properties of the sources' data, by source ("train.read")
  RunRecord record() const;                              // the properties compared with a checkpoint
  Value resolved() const;                                // Pipeline::resolved with automatic values filled in
  WeightsOptions weights_options() const;
  // Opens the stages and makes the graphs, unless done. Starts nothing. With only_check no batch gets memory, and a run that
  // exceeds the memory opens nothing: its plan shows the need.
  void open_graphs();
  // Makes waits of other processes for this one fail, and its waits for them. `why`: null if no process is lost by it.
  void leave(const Error* why);

 private:
  GraphOptions graph_options(std::size_t graph) const;
};

// Runs `work` on the result of prepare(). Reports its exception to other processes.
void leave_on_error(PreparedRun& run, const std::function<void()>& work);
void leave_together(PreparedRun& run);  // in good order, when all processes have called this

// Throws Error(usage) if the plan needs several times the available memory or, with keeps_to_memory, more than the limit.
void require_memory_of(const PreparedRun& run);

// The checkpoint's hashes of a source's samples; null if there are none, or the source's listing changed.
const SavedState::Contents* contents_then(const PreparedRun& run, const GraphBuild& build);

// Metadata of files of weights that the run writes.
std::map<std::string, std::string> weights_metadata(const PreparedRun& run);

SavedStages saved_stages(const GraphBuild& main);

// Allocates the replicas' memory and gives them their initial values. Those of a resumed run are in its checkpoint.
void start_replicas(PreparedRun& run);

// verify_batches() for the last `most` steps before the checkpoint that the run resumes from. Writes nothing. "" for a new run.
std::string verify(PreparedRun& run, std::uint64_t most);

}  // namespace millrace
