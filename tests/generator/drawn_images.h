// Drawn image files of every kind that decode_image supports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/detail/random.h"

namespace millrace::generator {

struct ImageSize {
  int height = 0, width = 0;
};

ImageSize drawn_size(Draw& draw);  // from 1 x 1 up: small, wide and tall ones

struct ImageBytes {
  std::string extension;  // "jpg" or "png"
  std::vector<std::uint8_t> bytes;
};
// JPEG: baseline and progressive; grey, RGB with all subsamplings, CMYK, YCCK; restart markers, custom tables, EXIF. PNG: all
// colour types and depths, transparency, interlaced, EXIF. `upright`: no orientation, so that a label image fits.
ImageBytes drawn_image(Draw& draw, ImageSize size, bool upright);
// Class numbers below `classes`, and some 255.
std::vector<std::uint8_t> drawn_labels(Draw& draw, ImageSize size, int classes);

}  // namespace millrace::generator
