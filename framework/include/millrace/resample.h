// Antialiased bilinear resampling of uint8 images.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

// Bit for bit what Pillow's Image.resize(..., BILINEAR) gives: a triangle filter, widened when shrinking so that every pixel of
// the source counts; first along rows, then along columns, each pass rounded to 8 bits; weights in fixed point of 22 bits. Keeps
// its tables and its buffer from call to call; one for each thread.
class Resampler {
 public:
  // `out` is (to.height, to.width, C). REQUIRES: to.channels == image.shape.channels <= 4, and no extent is 0.
  void resize(const Image& image, ImageShape to, std::uint8_t* out);

 private:
  // The pixels of a row (or column) that each output pixel is made of, and their weights.
  struct Axis {
    int from = 0, to = 0;  // extents these tables were made for
    int taps = 0;          // weights for each output pixel; the unused ones are 0
    std::vector<int> first, count;
    std::vector<std::int32_t> weights;  // (to, taps)

    void prepare(int from_extent, int to_extent);
  };

  Axis rows_, columns_;
  std::vector<std::uint8_t> narrow_;  // (height of the source, to.width, C)
  std::vector<std::int32_t> sums_;
};

}  // namespace millrace
