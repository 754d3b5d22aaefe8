// The kind of a sample's target. Part of sample.h.
#pragma once

#include <array>
#include <cstdint>

#include "millrace/detail/tensor.h"

namespace millrace {

// A second image: class indices (segmentation), or an image to reproduce (denoising). Its height and width are `scale` times the
// first image's, and it moves with it: pixel (y, x) covers its rows scale * y ... scale * y + scale - 1, and columns likewise.
struct TargetSpec {
  enum class Kind : std::uint8_t { none, classes, image };

  Kind kind = Kind::none;
  std::uint8_t ignored = 255;               // for classes: not counted; also fills outside the image
  std::array<std::uint8_t, 256> classes{};  // for classes: the class index of each value in the label image, or `ignored`
  int scale = 1;                            // 1 ... kMaxScale; above 1: super-resolution

  static constexpr int kMaxScale = 16;

  int channels(int of_image) const { return kind == Kind::none ? 0 : kind == Kind::classes ? 1 : of_image; }
  ImageShape shape(const ImageShape& image) const {  // the target's shape for such an image, always 8-bit
    return {image.height * scale, image.width * scale, channels(image.channels)};
  }
};

}  // namespace millrace
