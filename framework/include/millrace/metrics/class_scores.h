// Interprets a network's outputs as scores of classes.
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

// Ranks classes by output, with NaN last.
inline float rank_key(float output) { return std::isnan(output) ? -std::numeric_limits<float>::infinity() : output; }

// Probabilities for one image or pixel: the outputs, or their softmax in float64. The predicted class is the first of the largest
// outputs.
class ClassScores {
 public:
  // REQUIRES: `outputs` is not empty and outlives this object.
  ClassScores(std::span<const float> outputs, bool probabilities);

  std::size_t predicted() const { return predicted_; }
  double probability(std::size_t of) const;
  double loss(std::size_t label) const;  // -log of the label's probability

 private:
  std::span<const float> outputs_;
  bool probabilities_;
  std::size_t predicted_;
  double most_, sum_ = 0;  // the largest output, and the sum of exp(output - most)
};

// The predicted class of each pixel, as in ClassScores. Not thread-safe.
class PixelClasses {
 public:
  // `outputs`: (classes, pixels). Overwrites `classes`.
  void find(std::span<const float> outputs, std::size_t pixels, std::vector<std::uint8_t>& classes);

 private:
  std::vector<float> largest_;
};

}  // namespace millrace
