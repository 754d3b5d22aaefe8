// Makes stages from a checked plan, in flow order, and passes each the facts known from earlier stages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/backend/backend.h"
#include "millrace/stage.h"
#include "millrace/util/bad_sample_budget.h"
#include "millrace/util/batcher.h"

namespace millrace {

class SampleOrder;

bool trains(const GraphPlan& plan);  // whether gradients flow in it
// Whether a stage of the graph takes the results of steps, as `metrics` does to report them.
bool has_reports(const GraphPlan& plan);
// Whether a stage of the graph takes predictions, so that each sample must come once.
bool has_predictions(const GraphPlan& plan);
// Whether the graph predicts without reporting metrics, so that nothing is compared with the images' targets.
bool only_predicts(const GraphPlan& plan);

class GraphBuild;
std::string place_of_source(const GraphBuild& build);  // for messages. REQUIRES: build.data().source
std::string name_of_source(const GraphBuild& build);   // "train.read". REQUIRES: build.data().source
// Position of a stage's table, after the positions of other texts that set values in it or extend its file: "--set image.side,
// used in base.toml:60:1".
Position place_of_table(const StagePlan& stage);
// place_of_table() with the table's name: "base.toml:60:1: [train.augment]".
std::string place_of(const StagePlan& stage, const GraphPlan& graph);

// Facts known from a graph's data stages: the listing, the arriving samples, and how they form steps.
struct GraphData : DataContext {
  Source* source = nullptr;  // open; null if the graph has none
  const StagePlan *source_plan = nullptr, *batcher = nullptr;
  BatchSpec batch;
  bool chooses_batch = false;           // the batch size is automatic: 0 until it is set
  std::uint64_t different_samples = 0;  // in an epoch; some may come more than once
  // The source's whole listing, whatever is selected: samples by class, as in `classes`, and Source::listing_hash().
  std::vector<std::uint64_t> class_counts;
  std::uint64_t listing_hash = 0;
  bool is_labelled = false;  // whether images have labels, as far as is known without reading them

  std::uint64_t steps_per_epoch() const;
  std::uint64_t samples_until(std::uint64_t step) const;  // samples in all steps before this one
  // Fills the sample from the source, outside of a running graph. Returns "", or the source's error for an unreadable sample.
  std::string read_sample(std::uint64_t index, Sample& sample) const;
};

// Numbers by class that replace the words in a loss's `class_weights` (class_weights.h). Empty if not counted.
struct CountedWeights {
  std::vector<double> median, balanced;
  std::vector<std::string> classes = {};  // names in the counted graph
};

// Builds one graph's stages. First the data stages up to `batch`; then, when the replicas are known, the rest.
class GraphBuild {
 public:
  // Makes and opens the source, and makes every stage up to the Batcher (all stages without one). `context` holds common values:
  // seed, network, window, run, and the classes of the weights. `replicas`: number in the run, for batch sizes per device.
  GraphBuild(const GraphPlan& plan, DataContext context, std::size_t replicas = 1);

  // Throws ErrorKind::usage if a loss cannot take the targets or the network's output. `network`: where the user names the
  // network, for messages; "": only the loss is named.
  void require_targets(const std::string& network = {}) const;

  void add_requests(CompileRequest& request) const;  // requests of the stages to the network

  // Makes the stages after the Batcher. `context` holds common values: replicas, devices, load, steps.
  void add_step_stages(StepContext context);
  void open_stages() const;  // all but the source, which is already open
  // Opens the stage's instances that are not open yet: a DataLine may come before open_stages(). Error has the stage's place.
  void open_stage(std::size_t index) const;

  const GraphPlan& plan() const { return *plan_; }
  bool trains() const { return millrace::trains(*plan_); }
  const GraphData& data() const { return data_; }
  void set_batch_size(std::uint32_t size) { data_.batch.size = size; }
  void set_class_weights(CountedWeights weights) { class_weights_ = std::move(weights); }
  // The images that devices keep for this graph; none if no cache in it requests that.
  std::optional<ResidentSet> resident_set() const;
  std::shared_ptr<const Loss> loss() const;  // the loss whose metrics the graph reports; null if it reports none
  std::vector<std::string> figures() const;  // names of reported metrics, without those of classes (report/class_figures.h)
  // Names (or numbers) of the classes whose metrics it reports. Empty if it counts none.
  std::vector<std::string> counted_classes() const;
  const std::vector<std::vector<std::shared_ptr<Stage>>>& stages() const { return stages_; }

 private:
  template <class Context>
  void make(std::size_t index, const Context& shared, std::size_t instances);
  std::vector<std::string> outputs_by_name() const;  // the network's outputs: classes, or numbers
  Value table(std::size_t index) const;              // a stage's table, with counted numbers in place of words
  void open_source(std::size_t index);
  void count_classes(const SampleOrder& order);
  void require_sums(std::size_t replicas) const;
  void require_use_of_gradients() const;
  void refuse_random_before_cache() const;
  void refuse_changes_behind_device_cache() const;
  void require_each_once() const;
  std::string place(std::size_t index) const;  // a stage's place, for messages

  const GraphPlan* plan_;
  const std::size_t replicas_;
  GraphData data_;                                           // the facts known so far
  CountedWeights class_weights_;                             // those counted so far
  CompileRequest request_;                                   // this graph's only
  std::vector<std::vector<std::shared_ptr<Stage>>> stages_;  // instances by stage
  mutable std::set<const Stage*> open_;
  std::size_t made_ = 0;
};

bool has_batch_per_device(const GraphBuild& build);      // whether the file sets the batch size per device
HasBadSampleBudget* budget_of(const GraphBuild& build);  // of its batches; null if they have none. Owned by `build`
void require_steps(const GraphBuild& build);             // throws ErrorKind::data if an epoch has no complete batch

using Builds = std::vector<std::unique_ptr<GraphBuild>>;  // the run's; the first one is the main graph

}  // namespace millrace
