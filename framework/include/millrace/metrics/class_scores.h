// What a network's outputs say of classes.
//
//   const ClassScores scores(predictions.result().row(sample), false);
//   write(names[scores.predicted()], scores.probability(scores.predicted()));
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace millrace {

// An output as classes are ranked by it: what is no number comes last.
inline float rank_key(float output) { return std::isnan(output) ? -std::numeric_limits<float>::infinity() : output; }

// The outputs for one image or pixel: probabilities, or else their softmax, in float64, is. The predicted class is the first of
// the largest outputs.
class ClassScores {
 public:
  // REQUIRES: there are outputs, which outlive this.
  ClassScores(std::span<const float> outputs, bool probabilities);

  std::size_t predicted() const { return predicted_; }
  double probability(std::size_t of) const;
  double loss(std::size_t label) const;  // -log of the label's probability

 private:
  std::span<const float> outputs_;
  bool probabilities_;
  std::size_t predicted_;
  double most_, sum_ = 0;  // the largest output, and exp(output - most) of all
};

// The predicted class of each pixel, as of ClassScores. Not thread-safe.
class PixelClasses {
 public:
  // `outputs`: (classes, pixels). They replace what `classes` has.
  void find(std::span<const float> outputs, std::size_t pixels, std::vector<std::uint8_t>& classes);

 private:
  std::vector<float> largest_;
};

}  // namespace millrace
