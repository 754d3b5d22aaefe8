// The images of a pass that a network was most wrong about.
#pragma once

#include <sheet.h>

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

// Keeps the mistakes of the highest loss, with the images as the network saw them, no larger than they are drawn. Among
// equal losses those that came first stay and stand first. The same predictions in the same order give the same sheet.
// `names`: one for each class.
class Mistakes {
 public:
  explicit Mistakes(std::size_t most) : most_(most) {}

  // REQUIRES: share.batch, unless `most` is 0.
  void add(const Verdict& verdict, const Predictions& share, std::size_t sample);
  std::size_t count() const { return count_; }  // that were added
  void clear();

  std::string csv(const std::vector<std::string>& names) const;         // a row for each that was kept, the highest loss first
  drawing::Picture sheet(const std::vector<std::string>& names) const;  // the same, row after row

 private:
  struct Mistake {
    Verdict verdict;
    std::uint64_t index = 0;  // of the sample, in its source
    std::string place, file;  // "shards/3.tar: a/00042.jpg", "00042.jpg"
    drawing::KeptImage image;
  };

  static Mistake made(const Verdict& verdict, const Predictions& share, std::size_t sample);

  std::size_t most_, count_ = 0;
  std::vector<Mistake> worst_;
};

}  // namespace millrace
