// The network's verdict on the pixels of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibration.h"

namespace millrace {

// Sums over the counted pixels of one image.
struct PixelVerdict {
  double pixels = 0, right = 0;
  double loss = 0;  // -log of the probability of each pixel's label; infinite if that is 0 or NaN

  double mean_loss() const { return pixels > 0 ? loss / pixels : 0; }
};

// Adds each pixel to a pass's counts, by the rules of Verdict. Not thread-safe.
class PixelJudge {
 public:
  PixelJudge(std::size_t classes, bool probabilities) : classes_(classes), probabilities_(probabilities) {}

  // `outputs`: (classes, pixels). `labels`: a class for each pixel; pixels whose label is not a class are left out. `matrix`:
  // counts by (class, predicted class).
  PixelVerdict judge(std::span<const float> outputs, std::span<const std::uint8_t> labels, std::span<double> matrix,
                     Calibration& calibration);
  const std::vector<std::uint8_t>& predicted() const { return predicted_; }  // in the last image, including unlabelled pixels

 private:
  std::size_t classes_;
  bool probabilities_;
  std::vector<std::uint8_t> predicted_;
  std::vector<float> of_pixel_;
};

}  // namespace millrace
