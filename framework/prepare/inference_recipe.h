// The information needed to use weights as the run that wrote them did: the network, the preparation of images, and the meaning
// of the output. Stored in the metadata of a file of weights, under the key "usage", as TOML:
//
//   version   = 1
//   graph     = "validate"                  # whose preparation this is
//   seed      = 1                           # the run's: stages that draw, such as `noise`, draw the same again
//   precision = "fp32"
//   output    = "classes"                   # per image; "map": per pixel; "image"; "numbers"
//   loss      = "cross_entropy"
//   measure   = "cross_entropy"             # computes its metrics, or a table of a loss; not in files of older versions
//   unrepeatable = "stage 'sepia' ..."      # why --predict cannot do as the run did; missing: it can
//   batch     = 250                         # the size of its batches
//   prepare   = ["decode_image"]            # stages before `batch`, without caches
//   predict   = ["forward"]                 # stages after it, up to the predictions
//   input     = { height = 32, width = 32, channels = 3, mean = [...], deviation = [...] }
//   target    = { kind = "classes", scale = 1, ids = [[0], [1, 5]], colours = ["#808080", "#800000"] }
//                                           # for label images: the values of each class, and its colour if the source has one;
//                                           # ignored = [255]: values that are deliberately not counted
//   [stages.decode_image]                   # all keys, defaults too
//   [sinks.write_masks]                     # for stages that write predictions: the keys in_recipes(), as in the file
//   [network]                               # the variables
//   [document]                              # the network's file, with its base files
//
// The names of the classes are stored under the key "classes" of the metadata (weights.h).
//
// Weights may come from anywhere. Recipes are read to be compared and shown; a pipeline is made from one only if
// mistake_in_recipe() finds nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "prepare/graph_build.h"

namespace millrace {

struct InferenceRecipe {
  static constexpr std::int64_t kVersion = 1;
  static constexpr const char* kKey = "usage";  // in the metadata

  struct StageUse {
    std::string name, type;
    Value table;  // all keys, except the loss of a stage that measures one
    Position at;  // the stage's position in its file
  };

  std::string graph, precision, output, loss;
  std::string unrepeatable;  // mistake_in_recipe() when the weights were written
  std::int64_t seed = 1, batch = 0;
  std::vector<StageUse> prepare, predict;
  Value input, target;  // tables; `target` is empty if images have none
  Value network;        // the variables
  Value document;       // the network's file
  Value sinks;          // a table per type of stage
  Value measure;        // `loss` of the graph's metrics, as in a stage's table; an empty table: unknown
  std::vector<std::string> classes;
  Position classes_at, target_at, precision_at;  // positions in a pipeline's file
  bool paired = false;  // for a pipeline: target images are separate files, and not used to make the inputs
};

// Takes the preparation from the graph of run.best's metric; else from the first one that reports metrics and does not train;
// else from the first one that does not train; else from the main graph, without stages that draw random numbers. Empty if there
// is not a network, or if the graph reads no images or needs a stage that draws. REQUIRES: builds have their data stages.
std::optional<InferenceRecipe> inference_recipe_of(const Pipeline& pipeline,
                                                   const std::vector<std::unique_ptr<GraphBuild>>& builds);

// To and from the metadata of a file of weights. `file`: of the weights, for messages. Empty if the metadata has none, as
// PyTorch's, or another tool's text, which does not begin with a version. Throws Error(data) for a text that is invalid, or
// written by a newer version.
std::map<std::string, std::string> metadata_of(const InferenceRecipe& recipe);

// The names of predicted numbers and of several labels: as they stand in the recipe, null if they have none; and as texts.
const Value* number_columns(const InferenceRecipe& recipe);
std::vector<std::string> number_names(const InferenceRecipe& recipe);
std::optional<InferenceRecipe> recipe_from(const std::map<std::string, std::string>& metadata, const std::string& file);

// Why no pipeline can be made from it, or "". Its stages must have the role of their place (RecipeRole), with keys that are
// in_recipes() or have their defaults; other texts must be words; its network may have only layers. `measures`: checks its loss
// too.
std::string mistake_in_recipe(const InferenceRecipe& recipe, const Registry& registry, bool measures = false);

// Whether a recipe may hold the text: it must not be a path, a URL or an environment variable.
bool is_recipe_text(std::string_view text);

// The colours of classes in the metadata. Empty if missing or invalid.
std::vector<std::string> colours_from(const std::map<std::string, std::string>& metadata);

// Whether this is the default of the type's key.
bool is_default(const TypeDescription& type, std::string_view key, const Value& value);

// Restoration: its inputs are made from their targets, and cropped to the training size. A user's photographs must not be
// degraded or cropped. Stages declare both (RecipeEffect); the effects of a stage whose plugin is missing are unknown.
bool restores(const InferenceRecipe& recipe);
// Whether the network may be given photographs at their own size: it restores, and its images were cropped, not resized. Does
// not check whether its layers support other sizes.
bool takes_own_size(const InferenceRecipe& recipe, const Registry& registry);
// The usage of a restoring network, without degrading targets and without crops to the training size.
InferenceRecipe without_training_degradation(InferenceRecipe recipe, const Registry& registry);
// The recipe without sizes in stages that only state an image's size and neither crop nor change it; the stages then accept
// other sizes.
InferenceRecipe without_stated_sizes(InferenceRecipe recipe, const Registry& registry);
InferenceRecipe with_stated_size(InferenceRecipe recipe, const ImageShape& image, const Registry& registry);

// Where a pipeline's recipe `here` differs from its weights' recipe `stored`: preparation, and the first differing variable or
// layer of the network. Not compared: classes that one of the two lacks, or with new last layers (`other_task`); targets that
// one lacks; automatic precision, or one set by --set; initialisers. A restoring network may be given images that are not made
// from their targets, as in without_training_degradation().
Diagnostics disagreements(const InferenceRecipe& stored, const InferenceRecipe& here, bool other_task, const Registry& registry);

}  // namespace millrace
