#pragma once

#include "millrace/sample.h"
#include "millrace/util/affine.h"

namespace millrace {

// What an image is continued with where a change of place looks beyond it, and how pixels between pixels are made.
struct Outside {
  Border border = Border::constant;
  std::uint8_t fill[4] = {};
  Interpolation interpolation = Interpolation::bilinear;
};

// A sample whose pixels are changed on the host. Its size stays. Lives as long as a call of process(); refers to the sample.
// REQUIRES: no record is pending, see execute_pending().
class Canvas {
 public:
  Canvas(Sample& sample, const Outside& outside) : sample_(sample), outside_(outside) {}

  const Image& image() const { return sample_.change_colours(); }  // nothing is to be moved in it

  // Draws the image again: draw(from, to), two images of one shape. Each pixel shows the place that to_before leads to.
  template <class DrawImage>
  void redraw(DrawImage draw, const AffineMap& to_before = {}) {
    const ImageView from = sample_.image();
    const Image to = sample_.new_image(from.shape);
    draw(from, to);
    sample_.set_image(to, to_before);
  }

  // Moves the picture by this map, its target with it, in the target's pixels: one of classes by nearest neighbour, filled with
  // its ignored id.
  void warp(const AffineMap& from_source);

 private:
  void warp_target(const AffineMap& to_source);

  Sample& sample_;
  const Outside& outside_;
};

}  // namespace millrace
