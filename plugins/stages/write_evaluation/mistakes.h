// The images of a pass that a network was most wrong about.
#pragma once

#include <kept_samples.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/batch.h"

namespace millrace {

// What the network said of an image.
struct Verdict {
  std::size_t label = 0, predicted = 0;
  double confidence = 0;  // the probability of `predicted`
  double loss = 0;        // -log of the probability of `label`; infinite where that is 0 or no number

  // By ClassScores. Without a number the confidence is 0. REQUIRES: `label` is one of the outputs.
  static Verdict of(std::span<const float> outputs, std::size_t label, bool probabilities);
};

// Keeps the mistakes of the highest loss, with the images as the network saw them, no larger than they are drawn. Of equal losses
// those at the beginning of the pass stay and stand first.
class Mistakes {
 public:
  explicit Mistakes(std::size_t most) : worst_(most) {}

  // REQUIRES: share.batch, unless `most` is 0, and a name for each class.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names);
  void join(JointSink& processes) { worst_.join(processes); }
  void clear() { worst_.clear(); }

  std::string csv() const;         // a row for each that was kept, the highest loss first
  drawing::Picture sheet() const;  // the same, row after row

 private:
  drawing::KeptSamples worst_;
};

std::string place_of(const Predictions::Sample& sample);  // "shards/3.tar: a/00042.jpg"

}  // namespace millrace
