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

  // REQUIRES: `label` is one of the outputs. They are probabilities, or their softmax, in float64, is. The predicted class is the
  // first of the largest outputs; what is no number is never larger, as in write_classes. Without a number the confidence is 0.
  static Verdict of(std::span<const float> outputs, std::size_t label, bool probabilities);
};

// Keeps the mistakes of the highest loss, with the images as the network saw them, no larger than they are drawn. Of equal losses
// those at the beginning of the pass stay and stand first.
class Mistakes {
 public:
  explicit Mistakes(std::size_t most) : worst_(most) {}

  // REQUIRES: share.batch, unless `most` is 0, and a name for each class.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample, const std::vector<std::string>& names);
  void join(JointSink& processes);  // KeptSamples::join()
  void clear();

  std::string csv() const;         // a row for each that was kept, the highest loss first
  drawing::Picture sheet() const;  // the same, row after row

 private:
  double count_ = 0;  // that were added
  drawing::KeptSamples worst_;
};

// Texts that say which sample of a share it is.
std::string place_of(const Predictions::Sample& sample);  // "shards/3.tar: a/00042.jpg"
std::string file_of(const Predictions::Sample& sample);   // "00042.jpg"
// The image as the network saw it, no larger than it is drawn. REQUIRES: share.batch.
drawing::KeptImage kept_image(const Predictions& share, std::size_t sample);

}  // namespace millrace
