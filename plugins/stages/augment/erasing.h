#pragma once

#include "canvas.h"
#include "millrace/sample.h"
#include "parameters.h"

namespace millrace {

// Paints rectangles over the image, not over its target. A rectangle lies within the network's window; a larger one is clipped to
// it. Always makes all its draws: the chance; for each rectangle its area, aspect, row and column; for "noise" two words of seed.
class Erasing {
 public:
  Erasing(const EraseParams& params, const Outside& outside);  // errors: ErrorKind::usage

  struct Box {
    int top = 0, left = 0, height = 0, width = 0;
  };
  struct Boxes {
    bool happens = false;
    std::uint64_t seed = 0;
    std::vector<Box> boxes;  // within the network's window
  };
  // The result refers to thread-local memory that the next call reuses.
  const Boxes& draw(Draw& draw, ImageShape window) const;
  void apply(const Image& image, const Boxes& boxes, ImageShape window) const;

 private:
  void fill(const Image& image, const Box& box, const std::uint8_t colour[4]) const;

  EraseParams params_;
  Outside outside_;
};

}  // namespace millrace
