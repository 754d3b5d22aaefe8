// Warps images by affine maps (affine_map.h).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/detail/affine_map.h"
#include "millrace/sample.h"

namespace millrace {

enum class Interpolation : std::uint8_t {
  nearest,  // ties go right and down
  bilinear,
  bicubic,  // Keys' kernel with a = -1/2 ("Cubic convolution interpolation for digital image processing", 1981)
};

// Parses stages' parameters for the outside of an image. `border` REQUIRES: one of "constant", "reflect", "edge". A fill has one
// value for all channels or one for each of `channels` (0: unknown); other fills, or values beyond 0 ... 255, throw
// ErrorKind::usage.
Border border_named(std::string_view border);
std::array<std::uint8_t, 4> fill_colour(const std::vector<std::int64_t>& fill, int channels);

// out(x, y) = image(to_source(x, y)). Without antialiasing: strong reductions skip pixels. Outside the image,
// Border::constant gives `fill` beyond the area of the outermost pixels and repeats edge pixels within it; Border::edge and
// Border::reflect continue the image. unit: rows and columns of a target per pixel of its image; Border::reflect mirrors both
// about the same lines, the centres of that image's edge pixels. nearest and bilinear equal Pillow's Image.transform(AFFINE) to
// one grey level.
// REQUIRES: out.shape.channels == image.shape.channels <= 4; out is not the image; no extent is above 65,535, and `unit` divides
// the image's.
void warp_affine(const AffineMap& to_source, const ImageView& image, Interpolation interpolation, Border border,
                 const std::uint8_t fill[4], const Image& out, int unit = 1);

}  // namespace millrace
