// What weights need to be used as the run that wrote them used them: the network, how images are prepared for it, and what its
// result means. It stands in the metadata of a file of weights, under the key "usage", as TOML:
//
//   version   = 1
//   graph     = "validate"                  # whose preparation this is
//   seed      = 1                           # of the run: stages that draw, such as `noise`, draw the same again
//   precision = "fp32"
//   output    = "classes"                   # of an image; "map": of each pixel; "image"; "numbers"
//   loss      = "cross_entropy"
//   measure   = "cross_entropy"             # what its figures are made with, or a table of a loss; not in files of older versions
//   unrepeatable = "stage 'sepia' ..."      # why --predict cannot do as the run did; missing: it can
//   batch     = 250                         # the size of its batches
//   prepare   = ["decode_image"]            # stages before `batch`, without caches
//   predict   = ["forward"]                 # stages after it, up to the predictions
//   input     = { height = 32, width = 32, channels = 3, mean = [...], deviation = [...] }
//   target    = { kind = "classes", scale = 1, ids = [[0], [1, 5]], colours = ["#808080", "#800000"] }
//                                           # of label images: the values of each class, and its colour where the source names it;
//                                           # ignored = [255]: values that are meant to count nowhere
//   [stages.decode_image]                   # all keys, defaults too
//   [sinks.write_masks]                     # of stages that write predictions, the keys in_recipes(), as the file says them
//   [network]                               # the variables
//   [document]                              # the network's file, with what it extends
//
// The names of the classes stand under the key "classes" of the metadata (weights.h).
//
// Weights come from anywhere. What is read is compared and shown as it is; a pipeline is made of it where mistake_in_recipe()
// finds nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "stages/build.h"

namespace millrace {

struct InferenceRecipe {
  static constexpr std::int64_t kVersion = 1;
  static constexpr const char* kKey = "usage";  // of the metadata

  struct StageUse {
    std::string name, type;
    Value table;  // of all keys; of a stage that measures a loss, without it
    Position at;  // of the stage in its file
  };

  std::string graph, precision, output, loss;
  std::string unrepeatable;  // see mistake_in_recipe(), where the weights were written
  std::int64_t seed = 1, batch = 0;
  std::vector<StageUse> prepare, predict;
  Value input, target;  // tables; `target` is empty where images have none
  Value network;        // the variables
  Value document;       // the network's file
  Value sinks;          // a table for each type of stage
  Value measure;        // `loss` of the graph's figures, as a stage takes it; an empty table: not known
  std::vector<std::string> classes;
  Position classes_at, target_at, precision_at;  // where a pipeline's file says them
  bool paired = false;  // of a pipeline: target images are files of their own, and no images are made of them
};

// The graph whose preparation counts: that of run.best's figure; else the first one that reports figures
// and does not train; else the first one that does not train; else the main graph, without the stages that draw random numbers.
// Nothing: there is no network, the graph reads no images, or it cannot do without a stage that draws.
// REQUIRES: builds have their data stages.
std::optional<InferenceRecipe> inference_recipe_of(const Pipeline& pipeline,
                                                   const std::vector<std::unique_ptr<GraphBuild>>& builds);

// Metadata of a file of weights, and back. `file`: of the weights, for messages. Nothing where the metadata has none, as
// PyTorch's, or a text of another tool, which does not begin with a version. Throws Error(data) for a text that cannot be read,
// or that a newer version wrote.
std::map<std::string, std::string> metadata_of(const InferenceRecipe& recipe);

// The names of predicted numbers and of several labels; null: they have none.
const Value* number_names(const InferenceRecipe& recipe);
std::optional<InferenceRecipe> recipe_from(const std::map<std::string, std::string>& metadata, const std::string& file);

// Why no pipeline is made of it; "": one can be. Its stages have the role of their place (RecipeRole), with keys that are
// in_recipes() or have their defaults; other texts are words; its network has layers and nothing else. `measures`: its loss too.
std::string mistake_in_recipe(const InferenceRecipe& recipe, const Registry& registry, bool measures = false);

// Whether a recipe may hold it: text that can be no path, no URL and no variable of the environment.
bool is_recipe_text(std::string_view text);

// The colours of classes that the metadata names. Metadata of others, or what cannot be read: none.
std::vector<std::string> colours_from(const std::map<std::string, std::string>& metadata);

// Whether the type's key has this value by default.
bool is_default(const TypeDescription& type, std::string_view key, const Value& value);

// Restoration: its images are made from their targets, and cut to the size of training. A user's photographs are not to be spoilt
// or cut. What does either is declared by stages (RecipeEffect); of a stage that no plugin here has, no effect is known.
bool restores(const InferenceRecipe& recipe);
// Whether the network may be given photographs at their own size: it restores, and its images were cut and not resized. Whether
// its layers can do with another size is not known here.
bool takes_own_size(const InferenceRecipe& recipe, const Registry& registry);
// The usage of a network that restores, without what makes an image of its target, and without cuts to the size of training.
InferenceRecipe without_training_degradation(InferenceRecipe recipe, const Registry& registry);
// A stage that states which size images have, and cuts none to it, changes none: the same without that, and with another size.
InferenceRecipe without_stated_sizes(InferenceRecipe recipe, const Registry& registry);
InferenceRecipe with_stated_size(InferenceRecipe recipe, const ImageShape& image, const Registry& registry);

// Where `here`, of a pipeline, does otherwise than `stored`, of its weights: preparation, and the first variable or layer of the
// network that is another. Not compared: classes that one of the two does not know, or where the last layers are new
// (`other_task`); targets that one of them has not; a precision that is left to the run, or that --set says; initialisers. A
// network that restores may be given images that are not made of their targets as without_training_degradation() has it.
Diagnostics disagreements(const InferenceRecipe& stored, const InferenceRecipe& here, bool other_task, const Registry& registry);

}  // namespace millrace
