// Images seen through affine maps (affine_map.h).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/detail/affine_map.h"
#include "millrace/sample.h"

namespace millrace {

enum class Interpolation : std::uint8_t {
  nearest,  // a half goes right and down
  bilinear,
  bicubic,  // Keys' kernel with a = -1/2 ("Cubic convolution interpolation for digital image processing", 1981)
};

// What lies outside an image, as stages' parameters say it. `border` REQUIRES: one of "constant", "reflect", "edge". A fill has
// one value for all channels or one for each of `channels` (0: not known); anything else, or beyond 0 ... 255: ErrorKind::usage.
Border border_named(std::string_view border);
std::array<std::uint8_t, 4> fill_colour(const std::vector<std::int64_t>& fill, int channels);

// out(x, y) = image(to_source(x, y)). There is no antialiasing: where an image becomes much smaller, pixels are skipped.
// Outside the image: with Border::constant a place beyond the area of the outermost pixels gives `fill`, and a place within it
// sees edge pixels repeated. With Border::edge and Border::reflect the image continues that way.
// unit: so many rows and columns make a pixel of the image that a target belongs to; Border::reflect mirrors both about the same
// lines, the middles of that image's edge pixels.
// nearest and bilinear are what Pillow's Image.transform(AFFINE) gives, to one grey level.
// REQUIRES: out.shape.channels == image.shape.channels <= 4; out is not the image; no extent is above 65,535, and `unit` divides
// the image's.
void warp_affine(const AffineMap& to_source, const ImageView& image, Interpolation interpolation, Border border,
                 const std::uint8_t fill[4], const Image& out, int unit = 1);

}  // namespace millrace
