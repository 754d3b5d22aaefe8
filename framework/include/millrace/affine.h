// Affine maps of an image's plane, and images seen through them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/sample.h"

namespace millrace {

// (x, y) -> (xx x + xy y + x0, yx x + yy y + y0). x counts columns to the right, y rows down; a pixel's centre lies at whole
// numbers, so that the centre of an image is ((width - 1) / 2, (height - 1) / 2).
struct AffineMap {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;

  static AffineMap translation(double dx, double dy) { return {1, 0, dx, 0, 1, dy}; }
  static AffineMap scale(double x, double y) { return {x, 0, 0, 0, y, 0}; }  // -1: a mirror
  static AffineMap rotation(double degrees);                                 // counter-clockwise, as one sees the image
  static AffineMap shear(double x_degrees, double y_degrees);                // x += tan(x_degrees) y, and y += tan(y_degrees) x

  AffineMap then(const AffineMap& next) const;  // this map first
  AffineMap about(double x, double y) const;    // with (x, y) in place of the origin
  AffineMap inverse() const;                    // REQUIRES: determinant() != 0
  double determinant() const { return xx * yy - xy * yx; }
};

enum class Interpolation : std::uint8_t {
  nearest,  // a half goes right and down
  bilinear,
  bicubic,  // Keys' kernel with a = -1/2 ("Cubic convolution interpolation for digital image processing", 1981)
};

// What lies outside an image, as stages' parameters say it. `border` REQUIRES: one of "constant", "reflect", "edge". A fill has
// one value for all channels or one for each of `channels` (0: not known); anything else, or beyond 0 ... 255: ErrorKind::usage.
Border border_named(std::string_view border);
std::array<std::uint8_t, 4> fill_colour(const std::vector<std::int64_t>& fill, int channels);

// out(x, y) = image(to_source(x, y)). Without antialiasing: of an image that becomes much smaller, pixels are passed over.
// What lies outside: with Border::constant a pixel whose place is not within the image's area (its pixels' areas included) is
// `fill`, and one that is sees edge pixels repeated; with Border::edge and Border::reflect the image goes on that way.
// unit: so many rows and columns make a pixel of the image that a target belongs to; Border::reflect mirrors both about the same
// lines, the middles of that image's edge pixels.
// nearest and bilinear are what Pillow's Image.transform(AFFINE) gives, to one grey level.
// REQUIRES: out.shape.channels == image.shape.channels <= 4; out is not the image; no extent is above 65,535, and `unit` divides
// the image's.
void warp_affine(const AffineMap& to_source, const ImageView& image, Interpolation interpolation, Border border,
                 const std::uint8_t fill[4], const Image& out, int unit = 1);

}  // namespace millrace
