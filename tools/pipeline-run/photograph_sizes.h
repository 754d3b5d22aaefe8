// Groups the photographs for a restoring network by size.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/plugin.h"
#include "predict/model.h"

namespace millrace {

// Images of one size, as they arrive at `batch`, in the order of the source.
struct SizeGroup {
  ImageShape shape;
  ImageShape file;                // as decoded; the same unless a stage changes the size
  std::string first;              // one image, for messages
  std::vector<std::string> urls;  // all images
  bool in_archives = false;       // images are not separate files
};

// Opens each image that the pipeline's graph `predict` reads. Unreadable images are in the first group: the run reports them.
// Throws Error(data) if no image is readable.
std::vector<SizeGroup> group_by_size(const Pipeline& pipeline, const Registry& registry);

// Throws Error(usage) if the network cannot process the images: its parameters change with this size, its layers do not fit, or
// its output has the wrong size. `images`: of that size.
void check_size(const InferenceRecipe& recipe, const SizeGroup& images, const Registry& registry);

}  // namespace millrace
