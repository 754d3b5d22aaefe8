// Resampling of uint8 images: antialiased bilinear and bicubic, and nearest neighbour for label images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/detail/affine_map.h"
#include "millrace/sample.h"

namespace millrace {

enum class ResampleFilter : std::uint8_t {
  nearest,   // for class indices, which must not be mixed
  bilinear,  // a triangle
  bicubic,   // Keys' cubic with a = -1/2
};

// REQUIRES: one of "nearest", "bilinear", "bicubic": what a parameter with these choices holds.
ResampleFilter resample_filter(std::string_view name);

// A part of an image: pixels from its top left corner; edges may lie between pixels. In single precision, as Pillow has it.
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
};

// From the pixels of `to`, into which a box of an image is resampled, to that image's: the box's edges are the edges of the first
// and the last pixel. For Sample::set_image().
AffineMap resample_map(const Box& box, const ImageShape& to);

// Pixels whose rows begin `stride` bytes apart: an image, or a part of a larger one.
struct PixelRows {
  const std::uint8_t* data = nullptr;
  ImageShape shape;
  std::size_t stride = 0;
};
PixelRows rows_of(const ImageView& image);

// Gives the bits of Pillow's Image.resize(..., filter, box) up to version 11. (Version 13 resamples columns first where that is
// less work, and then rounds in between.) Bilinear and bicubic widen the filter when shrinking, so that every pixel of the box
// counts, and pixels beside the box that the filter reaches within the image. Rows come first, then columns; each pass rounds to
// 8 bits. Weights are fixed point of 22 bits. The bytes do not depend on the processor.
//
//   thread_local Resampler resampler;
//   resampler.resize(rows_of(image), {0, 0, 100.5F, 80}, ResampleFilter::bicubic, {224, 224, 3}, out);
//
// Keeps its tables and its buffer from call to call; one for each thread.
class Resampler {
 public:
  // The whole image, bilinear. `out` is (to.height, to.width, C). REQUIRES: to.channels == image.shape.channels <= 4, and no
  // extent is 0.
  void resize(const ImageView& image, ImageShape to, std::uint8_t* out);
  // REQUIRES: as above; the box lies in the image and is not empty.
  void resize(const PixelRows& image, const Box& box, ResampleFilter filter, ImageShape to, std::uint8_t* out);

 private:
  // The pixels of a row (or column) that each output pixel is made of, and their weights.
  struct Axis {
    int extent = 0, to = 0;  // what these tables were made for
    float low = 0, high = 0;
    ResampleFilter filter = ResampleFilter::bilinear;
    int taps = 0;                       // weights for each output pixel, a multiple of 4; the unused ones are 0
    std::vector<int> first;             // (to): where the taps begin; all of them lie in the source where it has as many pixels
    std::vector<std::int32_t> weights;  // (to, taps)
    std::vector<std::int32_t> packed;   // (to, taps): the weights once more, as the processor likes them
    int begin = 0, end = 0;             // source pixels that a table's row meets, those with a weight of 0 too

    bool is_copy() const { return extent == to && low == 0 && high == static_cast<float>(to); }
    void prepare(int new_extent, float new_low, float new_high, ResampleFilter new_filter, int new_to);
    void fill();
  };

  void resample(const PixelRows& image, ImageShape to, std::uint8_t* out);
  void nearest(const PixelRows& image, const Box& box, ImageShape to, std::uint8_t* out);

  Axis rows_, columns_;
  std::vector<std::uint8_t> narrow_;  // (rows of the source that count, to.width, C), rows padded
  std::vector<int> nearest_;          // source columns
};

}  // namespace millrace
