// The images of a pass with the worst predictions.
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

// The network's verdict on an image.
struct Verdict {
  std::size_t label = 0, predicted = 0;
  double confidence = 0;  // the probability of `predicted`
  double loss = 0;        // -log of the probability of `label`; infinite if that is 0 or NaN

  // Uses ClassScores. The confidence of NaN is 0. REQUIRES: `label` is one of the outputs.
  static Verdict of(std::span<const float> outputs, std::size_t label, bool probabilities);
};

// Keeps the mistakes of highest loss, with the images as the network saw them, at most at their drawn size. Among equal losses,
// those early in the pass stay and come first.
class Mistakes {
 public:
  explicit Mistakes(std::size_t most) : worst_(most) {}

  // REQUIRES: share.batch, unless `most` is 0, and a name for each class.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names);
  void join(JointSink& processes) { worst_.join(processes); }
  void clear() { worst_.clear(); }

  std::string csv() const;         // one row per kept image, highest loss first
  drawing::Picture sheet() const;  // the same, row by row

 private:
  drawing::KeptSamples worst_;
};

std::string place_of(const Predictions::Sample& sample);  // "shards/3.tar: a/00042.jpg"

}  // namespace millrace
