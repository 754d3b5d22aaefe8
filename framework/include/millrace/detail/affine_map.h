// Affine maps of an image's plane, and the way back to the image in a file. Part of sample.h.
#pragma once

#include <cstdint>

namespace millrace {

// (x, y) -> (xx x + xy y + x0, yx x + yy y + y0). x counts columns to the right, y rows down, both in pixels; a pixel's centre
// lies at whole numbers, so that the centre of an image is ((width - 1) / 2, (height - 1) / 2).
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
  friend bool operator==(const AffineMap&, const AffineMap&) = default;
};

// Where a sample's pixels come from: the image in its file, upright where decode_image turned it, before it was cut or resized.
// Coordinates are pixels, with centres at whole numbers, as in AffineMap. What lies outside was filled in by a border rule.
struct SourceMap {
  std::int32_t height = 0, width = 0;  // of that image; 0: nothing is known, and the map means nothing
  AffineMap map;                       // from pixels of the sample's image to pixels of that one

  bool is_known() const { return height > 0 && width > 0; }
  // The map of an image made of this one, whose pixel p shows what this one shows at `to_this`(p). Unknown stays unknown.
  SourceMap behind(const AffineMap& to_this) const;
  friend bool operator==(const SourceMap&, const SourceMap&) = default;
};

}  // namespace millrace
