// Weights of classes that a loss asks for with class_weights = "median-frequency": the numbers depend on the data, and are
// counted before the loss is made.
//
// A class's frequency is its share of the pixels of the images in which it occurs; its weight is the median frequency over its
// own (Eigen and Fergus, "Predicting depth, surface normals and semantic labels with a common multi-scale convolutional
// architecture", arXiv 1411.4734, section 5.3). Label images count as they arrive at `batch`, as `pipeline-data statistics`
// counts them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "millrace/detail/value.h"
#include "stages/build.h"

namespace millrace {

// The stage of which a loss asks for them, with the place of the key, for messages; "": none does.
std::string place_of_median_weights(const GraphPlan& plan);

struct MedianWeightsSetting {
  std::size_t classes = 0;
  std::uint64_t seed = 0;       // of the run
  unsigned threads = 1;         // that read and decode
  std::filesystem::path cache;  // a folder, made where it is missing; "": nothing is kept
};

// The weights for a graph's targets: 0 for a class that never occurs. Numbers are kept in the cache folder under the listing's
// fingerprint and the tables of all stages before `batch`, and found there the next time. Bad samples are left out. Throws
// Error(usage) when the source has no label images, Error(data) when none can be read.
std::vector<double> median_frequency_weights(const GraphBuild& build, const MedianWeightsSetting& setting);

// A resolved pipeline file with the numbers in place of the words. Without numbers: as it is.
Value with_median_weights(Value table, const std::vector<double>& weights);

}  // namespace millrace
