// Weights of classes that a loss asks for by a word, or by name. class_weights = { cat = 5 } names some, and the others have 1.
// "balanced" is samples / (classes * samples of the class), over the classes that the first graph's source has samples of, as
// scikit-learn's compute_class_weight has it. "median-frequency" counts the pixels of the first graph's label images: the
// frequency of a class is its pixels over all pixels of the images in which it occurs; its weight is the median frequency over
// its own (Eigen and Fergus, "Predicting depth, surface normals and semantic labels with a common multi-scale convolutional
// architecture", arXiv 1411.4734, section 5.3). Label images count as they arrive at `batch`, as `pipeline-data statistics`
// counts them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/value.h"
#include "stages/build.h"

namespace millrace {

// The stage of which a loss asks for this word, with the place of the key, for messages; "": none does.
std::string place_of_class_weights(const GraphPlan& plan, std::string_view word);

// Numbers by class in place of "balanced". Throws Error(usage) when the source names no classes.
std::vector<double> balanced_weights(const GraphBuild& build, std::size_t classes);

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

// A resolved pipeline file, or a stage's table, with the numbers in place of the words. Those without numbers stay as they are,
// and so do tables unless `classes` names those of the loss. Throws Error(usage) for a name that is none of them.
Value with_class_weights(Value table, const CountedWeights& weights, const std::vector<std::string>& classes = {});

}  // namespace millrace
