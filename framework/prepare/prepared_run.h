// A checked pipeline that is ready to run: devices, replicas, stages, what they take of memory, and where to begin.
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
#include "memory_limits/budget.h"
#include "millrace/plugin.h"
#include "prepare/audience.h"
#include "prepare/initial_weights.h"
#include "prepare/replica_set.h"
#include "prepare/run_options.h"
#include "prepare/step_range.h"
#include "recipe/image_summary.h"
#include "recipe/inference_recipe.h"
#include "stages/build.h"
#include "weight_files/replica_view.h"

namespace millrace {

// Made by prepare(), which sets its fields in their order. What comes later may refer to what comes before.
struct PreparedRun {
  PreparedRun(const Pipeline& checked, const Registry& plugins, RunOptions asked);
  ~PreparedRun();  // leaves the group: other processes do not wait for this one
  PreparedRun(const PreparedRun&) = delete;
  PreparedRun& operator=(const PreparedRun&) = delete;

  Pipeline adapted;  // as it was checked; of a resumed run with the rule for best weights that it began with
  const Pipeline& pipeline = adapted;
  const Registry& registry;
  RunOptions options;
  Audience audience;
  RunPlaces places;
  std::optional<ResumePoint> resume_point;  // the checkpoint that the run resumes from; nothing: it begins
  InitialWeights weights;
  ReplicaSet replicas;
  Builds builds;
  std::optional<InferenceRecipe> recipe;  // of this run, for the weights that it saves; precision and batch as written
  std::optional<ImageSummary> images;     // of a training, for the same weights; set when the run begins
  std::string network_text;               // the network's file with what it extends
  std::map<std::string, SavedState::Contents> contents;  // of the samples of each source, "train.read", as far as rank 0 looked
  CountedWeights class_weights;                          // GraphBuild::set_class_weights()
  std::string batch_choice;  // where the file leaves the size of batches to the run: a line that says it, and why
  std::string load_choice;   // the same of the shares of replicas
  StepRange steps;           // of the main graph
  std::unique_ptr<Workers> workers;
  std::vector<std::unique_ptr<Graph>> graphs;  // one for each build, once open_graphs() has made them

  const GraphBuild& main() const { return *builds.front(); }
  // The plan of the main graph, which --graph may name.
  const GraphPlan& stepping_graph() const {
    return options.graph.empty() ? pipeline.graphs.front() : *pipeline.graph(options.graph);
  }
  int data_threads() const;
  bool saves_checkpoints() const;                                                  // CheckpointPlan::wanted, and the graph trains
  std::vector<MemoryItem> memory() const { return memory_with(replicas.here()); }  // what the run will hold, at most
  std::vector<MemoryItem> memory_with(const Replicas& candidates) const;           // if these were its replicas
  std::size_t host_memory() const { return host_memory_for(pipeline.run.memory, replicas.devices().processes_here); }
  ReplicaView view() const;                              // REQUIRES: there is a network
  std::map<std::string, SavedState::Data> data() const;  // what the graphs' sources give, by source, "train.read"
  RunRecord record() const;                              // what a checkpoint is compared by
  Value resolved() const;                                // Pipeline::resolved with what was left to the run
  WeightsOptions weights_options() const;
  // Opens the stages and makes the graphs, where that is not done. Starts nothing. With only_check no batch gets memory, and a
  // run that needs more than there is opens nothing: its plan says what it needs.
  void open_graphs();
  // What other processes wait for fails, and so does what waits for them here. `why`: null where no process is lost by it.
  void leave(const Error* why);

 private:
  GraphOptions graph_options(std::size_t graph) const;
  MemoryNeeds memory_needs(const Replicas& candidates) const;
};

// In an order in which mistakes are found before anything expensive is done. Sources are opened (they list their samples). No
// sample is read but a few images (stages/label_values.h, stages/seen_images.h), once the memory plan is known, a few files of
// equal size (stages/same_files.h), a few of each source that are compared over ranks and with a checkpoint (stages/contents.h),
// and all where compare_data is asked for, or where a loss asks for numbers that depend on the data (stages/class_weights.h).
// `pipeline` and `registry` outlive what is returned. Throws Error.
std::unique_ptr<PreparedRun> prepare(const Pipeline& pipeline, const Registry& registry, RunOptions options);

// Does `work` on what prepare() has returned. Other processes are told what it throws.
void telling_others(PreparedRun& run, const std::function<void()>& work);
void leave_together(PreparedRun& run);  // in good order, when all processes have come to this call

void warn_of_memory(PreparedRun& run);  // where the plan exceeds what it may take
// Throws Error(usage) where the plan needs several times what there is, or, with keeps_to_memory, more than it may take.
void require_memory_of(const PreparedRun& run);

// Metadata of files of weights that the run writes.
std::map<std::string, std::string> weights_metadata(const PreparedRun& run);

SavedStages saved_stages(const GraphBuild& main);

// Has the replicas allocate their memory, and gives them the values that the run starts from. Those of a resumed run are in its
// checkpoint.
void start_replicas(PreparedRun& run);

// verify_batches() for the last `most` steps before the checkpoint that the run resumes from. Nothing is written. "": the run
// begins.
std::string verify(PreparedRun& run, std::uint64_t most);

}  // namespace millrace
