// Samples side by side, as `show` draws them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/sample.h"
#include "picture.h"

namespace millrace {

// One sample, at the size it is drawn.
struct Cell {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
  ImageShape target_shape;  // of a target that is an image: it stands beside
  std::vector<std::uint8_t> target;
  std::vector<std::uint8_t> classes;  // that occur, by index
  std::vector<std::string> captions;  // lines
  std::string fault;                  // not empty: a bad sample, without pixels
};

// The size an image is drawn at: small ones as multiples of themselves, large ones made to fit.
ImageShape drawn_shape(ImageShape shape);
std::vector<std::uint8_t> drawn(const ImageView& image, ImageShape to);  // REQUIRES: to == drawn_shape(image.shape)

// `names`: of the classes in Cell::classes, for the legend.
Picture contact_sheet(const std::vector<Cell>& cells, const std::vector<std::string>& names);

}  // namespace millrace
