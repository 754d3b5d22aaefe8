// A network's result as a picture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "millrace/detail/tensor.h"

namespace millrace {

class Network;

// The network's result as a picture: a value v of channel c becomes the 8-bit pixel 255 (v deviation[c] + mean[c]), rounded, with
// the input's mean and deviation, or 255 v.
class OutputPixels {
 public:
  // Throws Error(usage) for null, for a result that is not a picture, and if input and result differ in channels.
  OutputPixels(const Network* network, bool normalised);

  ImageShape shape() const { return shape_; }
  void draw(std::span<const float> values, std::vector<std::uint8_t>& pixels) const;  // from (C, H, W) to (H, W, C)

 private:
  ImageShape shape_;
  std::vector<float> factor_, summand_;  // by channel
};

}  // namespace millrace
