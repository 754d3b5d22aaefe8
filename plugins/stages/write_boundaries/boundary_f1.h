// Measures how well an image's class boundaries are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace millrace {

// True and predicted class of each pixel, row by row. Pixels whose true class is not in `classes`, such as an ignored id, belong
// to no class in either map.
struct ClassMaps {
  int height = 0, width = 0;
  std::size_t classes = 0;  // at most 255
  std::span<const std::uint8_t> truth, predicted;
};

// The boundary F1 of each class. A boundary pixel of a class is one that has a neighbour (above, below, left or right) of another
// class, or lies at the image's edge. It is found if the other map has a boundary pixel of the same class within `tolerance`
// times the image's diagonal. Precision is the share of predicted boundary pixels that are found in the truth, recall that of the
// true ones found in the prediction, and F1 their harmonic mean. Empty for a class in neither map; 0 for a class in only one map.
// Csurka, Larlus and Perronnin, "What is a good evaluation measure for semantic segmentation?" (BMVC 2013).
std::vector<std::optional<double>> boundary_f1(const ClassMaps& maps, double tolerance);

}  // namespace millrace
