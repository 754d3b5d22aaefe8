// Doubts about a prepared run: settings without effect, data that are probably a mistake, metrics that would mislead.
//
// A check is a function in a file of this folder, declared below and listed in doctor.cpp. It passes each doubt on as a sentence
// with the place, the finding and the remedy, and throws Error if the run would be meaningless:
//
//   void check_folder(const PreparedRun& run, const Doubt& doubt) {
//     if (run.pipeline.run.folder.empty()) doubt(run.pipeline.place_of("run.folder") + ": nothing is written; name a folder");
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "prepare/prepared_run.h"

namespace millrace {

using Doubt = std::function<void(std::string text)>;  // "": there is none

// The facts that a check needs, in the order in which a run gets them.
enum class Known : std::uint8_t {
  weights,  // the checkpoint to resume, or the choice of initial weights
  data,     // the listings of all sources; a check may read a few files
  plan,     // all stages, and the steps
  memory,   // the plan fits; a check may decode a few images
  graphs,   // the graphs are open: the run begins, or --check reports
};

// Runs the checks that need just this, and sends their doubts to the run's audience. Throws as the checks do.
void examine(PreparedRun& run, Known known);

// The checks, by what they need.
using Check = void(const PreparedRun& run, const Doubt& doubt);
Check check_processes, check_ignored_weights, check_frozen_layers;
Check check_missing_files, check_meaning_of_classes, check_weights, check_memory_limit, check_losses, check_class_names,
    check_class_counts, check_mirrors, check_same_files, check_image_sizes, check_results;
Check check_metrics, check_on_nan, check_file_names, check_unused_settings, check_changed_data, check_class_weights,
    check_batches;
Check check_seen_part, check_label_values;
Check check_memory, check_unlike_images;

// Whether the run trains a network, which other graphs may measure.
inline bool is_training(const PreparedRun& run) { return run.pipeline.network && run.main().trains() && !run.options.only_main; }
// Whether the graph's metrics are compared with training. Images that are only predicted may be anything.
inline bool is_measured(const PreparedRun& run, const GraphBuild& build) {
  return is_training(run) && &build != &run.main() && !only_predicts(build.plan());
}

// Parts of checks, for data without a run, and for tests.

// Class names that suggest other labels than training assumes: two spellings of one number; names that combine others, which are
// several labels; names mixed with their positions; dates.
std::vector<std::string> doubts_of_names(const std::vector<std::string>& classes);
// doubts_of_names() with their place, unless the file lists the classes, and names that differ only in spelling. REQUIRES: an
// open source.
void look_at_class_names(const GraphBuild& build, const Doubt& doubt);

// Reads up to `most` stored label images of the graph, if it has some, spread evenly over its listing: a value of no class is
// never counted, a class whose values occur in no image is never learned, and a value with two palette colours means two classes.
// Throws Error(data) if the graph trains and no pixel of up to 256 images belongs to a class, or none of them can be used.
void look_at_label_values(const GraphBuild& build, std::uint64_t seed, std::uint64_t most, const Doubt& doubt);

// Settings without effect in a run of `steps`. These are not errors: the run may be a short trial of a long recipe.
void look_at_settings(const Pipeline& pipeline, const MainGraphSteps& main, std::uint64_t steps, const Doubt& doubt);
// Initial weights that were added to the file after the run began. `begun`: the checkpoint's file.
void look_at_ignored_weights(const Pipeline& pipeline, const Value& begun, const Doubt& doubt);

struct TrainedBatches {
  std::string graph;                  // for messages
  std::uint32_t size = 0;             // samples per batch
  std::uint32_t last = 0;             // size of an epoch's last batch if it is smaller, else 0
  std::size_t replicas = 1;           // in all processes
  std::span<const double> load = {};  // as for split()
};
// Throws Error(usage) if a layer would normalise by the mean and variance of one value per channel. That variance is 0: the
// layer would output its shift for any input, and its running variance would approach 0.
void require_variance(const Network& network, const CompileRequest& request, const TrainedBatches& batches);

}  // namespace millrace
