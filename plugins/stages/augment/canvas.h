#pragma once

#include "millrace/sample.h"
#include "millrace/util/affine.h"

namespace millrace {

// How a change of place fills pixels outside the image, and how it interpolates.
struct Outside {
  Border border = Border::constant;
  std::uint8_t fill[4] = {};
  Interpolation interpolation = Interpolation::bilinear;
};

// A sample whose pixels change on the host; its size stays. Refers to the sample; lives for one call of process(). REQUIRES: no
// record is pending (execute_pending()).
class Canvas {
 public:
  Canvas(Sample& sample, const Outside& outside) : sample_(sample), outside_(outside) {}

  const Image& image() const { return sample_.change_colours(); }  // for changes that move no pixels

  // Redraws the image: draw(from, to), two images of the same shape. to_before maps each pixel to its source position.
  template <class DrawImage>
  void redraw(DrawImage draw, const AffineMap& to_before = {}) {
    const ImageView from = sample_.image();
    const Image to = sample_.new_image(from.shape);
    draw(from, to);
    sample_.set_image(to, to_before);
  }

  // Warps the picture and its target (in the target's own pixels; class targets by nearest neighbour, filled with their ignored
  // id).
  void warp(const AffineMap& from_source);

 private:
  void warp_target(const AffineMap& to_source);

  Sample& sample_;
  const Outside& outside_;
};

}  // namespace millrace
