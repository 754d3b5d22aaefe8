// Samples side by side, as `show` draws them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/util/picture.h"

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

// The size an image is drawn at on a sheet.
ImageShape cell_shape(ImageShape shape);

// `names`: of the classes in Cell::classes, for the legend.
Picture contact_sheet(const std::vector<Cell>& cells, const std::vector<std::string>& names);

}  // namespace millrace
