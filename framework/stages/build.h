// From a checked plan to stage objects: in flow order, each told what the stages before it made known.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/backend/backend.h"
#include "millrace/stage.h"
#include "millrace/util/batcher.h"

namespace millrace {

class SampleOrder;

bool trains(const GraphPlan& plan);  // gradients flow in it
// Whether a stage of the graph takes the results of steps, as `metrics` does to report them.
bool has_reports(const GraphPlan& plan);
// Whether a stage of the graph takes predictions: each sample is to come once.
bool has_predictions(const GraphPlan& plan);
// Whether it makes predictions and reports no figures, so that nothing is compared with what the images are.
bool only_predicts(const GraphPlan& plan);
// Whether results or predictions are made, no stage takes any of them, and nothing is trained.
bool loses_results(const GraphPlan& plan);

class GraphBuild;
std::string place_of_source(const GraphBuild& build);  // for messages. REQUIRES: build.data().source
std::string name_of_source(const GraphBuild& build);   // "train.read". REQUIRES: build.data().source
// Where a stage's table stands, after the places of other texts that give values in it, or extend its file:
// "--set image.side, used in base.toml:60:1".
Position place_of_table(const StagePlan& stage);
// The same with the table's name: "base.toml:60:1: [train.augment]".
std::string place_of(const StagePlan& stage, const GraphPlan& graph);

// What the data stages of a graph made known: what the source lists, what arrives after them, and how it is counted into steps.
struct GraphData : DataContext {
  Source* source = nullptr;  // it is open; null: the graph has none
  const StagePlan *source_plan = nullptr, *batcher = nullptr;
  BatchSpec batch;
  bool chooses_batch = false;           // the file leaves the batch's size to the run: 0 until it is set
  std::uint64_t different_samples = 0;  // of an epoch; some may come more than once
  // What the source lists, whatever is chosen of it: samples by class, as `classes` has them, and Source::listing_hash().
  std::vector<std::uint64_t> class_counts;
  std::uint64_t listing_hash = 0;
  bool is_labelled = false;  // images have labels, as far as can be said without reading them

  std::uint64_t steps_per_epoch() const;
  std::uint64_t samples_until(std::uint64_t step) const;  // in all steps before this one
  // Fills the sample as the source gives it, outside of a running graph. "", or what the source says of a sample that it cannot
  // read.
  std::string read_sample(std::uint64_t index, Sample& sample) const;
};

// Numbers by class in place of the words that `class_weights` of a loss may be (class_weights.h). Empty: not counted.
struct CountedWeights {
  std::vector<double> median, balanced;
};

// One graph's stages while they are made. First the data stages up to `batch`; then, when the replicas are known, the rest.
class GraphBuild {
 public:
  // Makes and opens the source, and makes every stage up to the Batcher (all stages where there is none).
  // `context` holds what is the same for every stage: seed, network, window, run; and the classes that the weights name.
  // `replicas`: of the run, for batches whose file says a size for each device.
  GraphBuild(const GraphPlan& plan, DataContext context, std::size_t replicas = 1);

  // ErrorKind::usage when a loss cannot take what is read or what the network makes of it. `network`: where the user names the
  // network, for messages; "": beside the loss.
  void require_targets(const std::string& network = {}) const;

  void add_requests(CompileRequest& request) const;  // what the stages want of the network

  // Makes the stages after the Batcher. `context` holds what is the same for all graphs: replicas, devices, load, steps.
  void add_step_stages(StepContext context);
  void open_stages();  // all but the source, which is open already

  const GraphPlan& plan() const { return *plan_; }
  bool trains() const { return millrace::trains(*plan_); }
  const GraphData& data() const { return data_; }
  void set_batch_size(std::uint32_t size) { data_.batch.size = size; }
  void set_class_weights(CountedWeights weights) { class_weights_ = std::move(weights); }
  // What devices are to keep of this graph; none when no cache in it asks for that.
  std::optional<ResidentSet> resident_set() const;
  std::shared_ptr<const Loss> loss() const;  // of which the graph reports figures; null: it reports none
  std::vector<std::string> figures() const;  // that the graph reports, by name, but those of classes (report/class_figures.h)
  // Names of the classes whose metrics it reports, numbers where they have none. Empty: it counts none.
  std::vector<std::string> counted_classes() const;
  const std::vector<std::vector<std::shared_ptr<Stage>>>& stages() const { return stages_; }

 private:
  template <class Context>
  void make(std::size_t index, const Context& shared, std::size_t instances);
  std::vector<std::string> outputs_by_name() const;  // of a network: its classes, or numbers
  Value table(std::size_t index) const;  // of a stage, with numbers in place of words that the data decide
  void open_source(std::size_t index);
  void count_classes(const SampleOrder& order);
  void require_sums(std::size_t replicas) const;
  void require_use_of_gradients() const;
  void refuse_random_before_cache() const;
  void refuse_changes_behind_device_cache() const;
  void require_each_once() const;
  std::string place(std::size_t index) const;  // of a stage, for messages

  const GraphPlan* plan_;
  const std::size_t replicas_;
  GraphData data_;                                           // what is known so far
  CountedWeights class_weights_;                             // as far as they are counted
  CompileRequest request_;                                   // of this graph alone
  std::vector<std::vector<std::shared_ptr<Stage>>> stages_;  // instances by stage
  std::size_t made_ = 0;
};

bool has_batch_per_device(const GraphBuild& build);                          // the file says a batch's size for each device
void require_steps(const GraphBuild& build);                                 // ErrorKind::data when an epoch has not one batch
void require_same_classes(const GraphBuild& build, const GraphBuild& main);  // ErrorKind::usage; a label means the same in both

using Builds = std::vector<std::unique_ptr<GraphBuild>>;  // of a run; the first one is the main graph

}  // namespace millrace
