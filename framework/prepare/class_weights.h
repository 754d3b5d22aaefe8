// Class weights that a loss requests by a word, or by name. class_weights = { cat = 5 } sets some; the others are 1. "balanced"
// is samples / (classes * samples of the class), over the classes that have samples in the first graph's source, as in
// scikit-learn's compute_class_weight. "median-frequency" counts the pixels of the first graph's label images: the frequency of
// a class is its pixels over all pixels of the images in which it occurs; its weight is the median frequency over its own (Eigen
// and Fergus, "Predicting depth, surface normals and semantic labels with a common multi-scale convolutional architecture",
// arXiv 1411.4734, section 5.3). Label images count as they arrive at `batch`, as in `pipeline-data statistics`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/value.h"
#include "prepare/graph_build.h"

namespace millrace {

// The stage whose loss requests this word, with the key's position, for messages; "" if none does.
std::string place_of_class_weights(const GraphPlan& plan, std::string_view word);

// Numbers by class for "balanced". Throws Error(usage) if the source names no classes.
std::vector<double> balanced_weights(const GraphBuild& build, std::size_t classes);

struct MedianWeightsSetting {
  std::size_t classes = 0;
  std::uint64_t seed = 0;       // the run's
  unsigned threads = 1;         // for reading and decoding
  std::filesystem::path cache;  // a folder, made if missing; "": nothing is cached
};

// The weights for a graph's targets: 0 for a class that never occurs. They are cached in the folder under the listing's
// fingerprint and the tables of all stages before `batch`. Bad samples are left out. Throws Error(usage) if the source has no
// label images, Error(data) if none can be read.
std::vector<double> median_frequency_weights(const GraphBuild& build, const MedianWeightsSetting& setting);

// A resolved pipeline file, or a stage's table, with numbers in place of words. Words without numbers stay, as do tables unless
// `classes` names the loss's classes. Throws Error(usage) for an unknown name.
Value with_class_weights(Value table, const CountedWeights& weights, const std::vector<std::string>& classes = {});

}  // namespace millrace
