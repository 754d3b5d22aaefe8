#pragma once

#include "canvas.h"
#include "millrace/sample.h"
#include "parameters.h"

namespace millrace {

// Puts rectangles over the image; its target stays. A rectangle lies wholly within what the network sees; one that would be
// higher or wider is cut to it. Makes all its draws every time: the chance; for each rectangle its area, aspect, row and column;
// for "noise" two words of seed.
class Erasing {
 public:
  Erasing(const EraseParams& params, const Outside& outside);  // errors: ErrorKind::usage

  struct Box {
    int top = 0, left = 0, height = 0, width = 0;
  };
  struct Boxes {
    bool happens = false;
    std::uint64_t seed = 0;
    std::vector<Box> boxes;  // within what the network sees
  };
  // Refers to memory of this thread, which the next call uses again.
  const Boxes& draw(Draw& draw, ImageShape window) const;
  void apply(const Image& image, const Boxes& boxes, ImageShape window) const;

 private:
  void fill(const Image& image, const Box& box, const std::uint8_t colour[4]) const;

  EraseParams params_;
  Outside outside_;
};

}  // namespace millrace
