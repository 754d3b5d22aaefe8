// Affine maps of an image's plane, and the mapping back to the source image. Part of sample.h.
#pragma once

#include <cstdint>

namespace millrace {

// (x, y) -> (xx x + xy y + x0, yx x + yy y + y0), in pixels: x counts columns to the right, y rows down. Pixel centres have
// integer coordinates, so the centre of an image is ((width - 1) / 2, (height - 1) / 2).
struct AffineMap {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;

  static AffineMap translation(double dx, double dy) { return {1, 0, dx, 0, 1, dy}; }
  static AffineMap scale(double x, double y) { return {x, 0, 0, 0, y, 0}; }  // -1 mirrors
  static AffineMap rotation(double degrees);                                 // counter-clockwise on the screen
  static AffineMap shear(double x_degrees, double y_degrees);                // x += tan(x_degrees) y, and y += tan(y_degrees) x

  AffineMap then(const AffineMap& next) const;  // applies this map first
  AffineMap about(double x, double y) const;    // the same map with (x, y) as origin
  AffineMap inverse() const;                    // REQUIRES: determinant() != 0
  double determinant() const { return xx * yy - xy * yx; }
  friend bool operator==(const AffineMap&, const AffineMap&) = default;
};

// Where a sample's pixels come from: the image in its file, upright if decode_image turned it, before cropping or resizing.
// Coordinates are pixels with integer centres, as in AffineMap. A border rule fills the outside.
struct SourceMap {
  std::int32_t height = 0, width = 0;  // size of that image; 0: unknown, and the map is meaningless
  AffineMap map;                       // from pixels of the sample's image to pixels of the source image

  bool is_known() const { return height > 0 && width > 0; }
  // The map for an image made from this one, whose pixel p shows what this one shows at `to_this`(p). Unknown stays unknown.
  SourceMap behind(const AffineMap& to_this) const;
  friend bool operator==(const SourceMap&, const SourceMap&) = default;
};

}  // namespace millrace
