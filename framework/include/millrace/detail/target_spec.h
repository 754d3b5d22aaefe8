// What a sample's target is. Part of sample.h.
#pragma once

#include <array>
#include <cstdint>

#include "millrace/detail/tensor.h"

namespace millrace {

// A second image: of class indices (segmentation), or one to be reproduced (denoising). It has `scale` times the height and width
// of the first, and moves with it: pixel (y, x) covers its rows scale * y ... scale * y + scale - 1, and columns in the same way.
struct TargetSpec {
  enum class Kind : std::uint8_t { none, classes, image };

  Kind kind = Kind::none;
  std::uint8_t ignored = 255;               // of classes: counts nowhere; lies where an image is filled
  std::array<std::uint8_t, 256> classes{};  // of classes: the class index of each value in the label image, or `ignored`
  int scale = 1;                            // 1 ... kMostScale; above 1: super-resolution

  static constexpr int kMostScale = 16;

  int channels(int of_image) const { return kind == Kind::none ? 0 : kind == Kind::classes ? 1 : of_image; }
  ImageShape shape(const ImageShape& image) const {  // of the target of such an image, always 8-bit
    return {image.height * scale, image.width * scale, channels(image.channels)};
  }
};

}  // namespace millrace
