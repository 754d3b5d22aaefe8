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

// REQUIRES: one of "nearest", "bilinear", "bicubic", as ensured by a parameter with these choices.
ResampleFilter resample_filter(std::string_view name);

// A part of an image, in pixels from its top left corner; edges may lie between pixels. Single precision, as in Pillow.
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
};

// Maps pixels of `to`, the result of resampling a box of an image, to the image's pixels: the box's edges are the outer edges of
// the first and the last pixel. For Sample::set_image().
AffineMap resample_map(const Box& box, const ImageShape& to);

// Pixels whose rows are `stride` bytes apart: an image, or a part of a larger one.
struct PixelRows {
  const std::uint8_t* data = nullptr;
  ImageShape shape;
  std::size_t stride = 0;
};
PixelRows rows_of(const ImageView& image);

// Has the same bits as Pillow's Image.resize(..., filter, box) up to version 11. (Version 13 resamples columns first if that is
// less work, and then rounds in between.) Bilinear and bicubic widen the filter when shrinking, so that every pixel of the box
// counts, with pixels outside the box within the filter's reach. Rows are resampled first, then columns; each pass rounds to 8
// bits. Weights are 22-bit fixed point. The bytes do not depend on the processor.
//
//   thread_local Resampler resampler;
//   resampler.resize(rows_of(image), {0, 0, 100.5F, 80}, ResampleFilter::bicubic, {224, 224, 3}, out);
//
// Keeps its tables and its buffer between calls; use one per thread.
class Resampler {
 public:
  // The whole image, bilinear. `out` is (to.height, to.width, C). REQUIRES: to.channels == image.shape.channels <= 4, and no
  // extent is 0.
  void resize(const ImageView& image, ImageShape to, std::uint8_t* out);
  // REQUIRES: as above; the box lies in the image and is not empty.
  void resize(const PixelRows& image, const Box& box, ResampleFilter filter, ImageShape to, std::uint8_t* out);

 private:
  // The source pixels of each output pixel in a row (or column), and their weights.
  struct Axis {
    int extent = 0, to = 0;  // the extents for which these tables were made
    float low = 0, high = 0;
    ResampleFilter filter = ResampleFilter::bilinear;
    int taps = 0;                       // weights per output pixel, a multiple of 4; unused ones are 0
    std::vector<int> first;             // (to): first tap; all taps lie in the source if it has as many pixels
    std::vector<std::int32_t> weights;  // (to, taps)
    std::vector<std::int32_t> packed;   // (to, taps): the same weights, laid out for the processor
    int begin = 0, end = 0;             // source pixels covered by the table, including those with weight 0

    bool is_copy() const { return extent == to && low == 0 && high == static_cast<float>(to); }
    void prepare(int new_extent, float new_low, float new_high, ResampleFilter new_filter, int new_to);
    void fill();
  };

  void resample(const PixelRows& image, ImageShape to, std::uint8_t* out);
  void nearest(const PixelRows& image, const Box& box, ImageShape to, std::uint8_t* out);

  Axis rows_, columns_;
  std::vector<std::uint8_t> narrow_;  // (needed source rows, to.width, C), rows padded
  std::vector<int> nearest_;          // source columns
};

}  // namespace millrace
