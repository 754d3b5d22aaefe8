#pragma once

#include "canvas.h"
#include "millrace/sample.h"
#include "parameters.h"

namespace millrace {

// Change of place: mirror, scale, shear and rotate about the centre, then shift, in this order.
class Geometry {
 public:
  static constexpr int kLargest = 12'000;  // pixels, for images and shifts
  static constexpr std::uint64_t kUnflipped = 1, kFlipped = 2;

  // `halves` selects the halves of the alternating flip. `channels`: 0 if unknown. Errors: ErrorKind::usage.
  Geometry(const GeometryParams& params, int channels, std::uint64_t halves, int target_scale = 1);

  // The draws for one sample.
  struct Placement {
    bool flip_x = false, flip_y = false;
    double dx = 0, dy = 0;
    AffineMap shape;     // scale, shear, rotation about the origin
    bool warps = false;  // more than flips and whole pixels
  };
  // Draws flip_x, flip_y, translate.x, translate.y; then the set ones among rotate, scale, scale_x, scale_y, shear_x, shear_y.
  Placement draw(Sample& sample, Draw& draw) const;

  // Moves the sample: by its record, which is left pending, or on the host if the placement warps.
  void place(Sample& sample, const Placement& placement, ImageShape window) const;

  const Outside& outside() const { return outside_; }
  bool may_warp() const { return params_.translate.subpixel || shapes_; }

 private:
  void check_shift(const Range& range, const char* name, int most) const;
  AffineMap draw_shape(Draw& draw) const;

  GeometryParams params_;
  Outside outside_;
  bool shapes_;
  std::uint64_t halves_;
};

}  // namespace millrace
