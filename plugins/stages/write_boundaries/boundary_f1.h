// How well the boundaries of classes are found in an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace millrace {

// The class of each pixel, row after row: as it is, and as it was predicted. Pixels whose true class is none of `classes`, such
// as an ignored id, belong to no class in both.
struct ClassMaps {
  int height = 0, width = 0;
  std::size_t classes = 0;  // at most 255
  std::span<const std::uint8_t> truth, predicted;
};

// The boundary F1 of each class. A boundary pixel of a class is one that has a neighbour (above, below, left or right) of another
// class, or lies at the image's edge. It is found when the other map has a boundary pixel of the same class within `tolerance`
// times the image's diagonal. Precision is the share of predicted boundary pixels that are found in the truth, recall that of the
// true ones found in the prediction, and the figure their harmonic mean. A class that neither map has: none. One that a single
// map has: 0. Csurka, Larlus and Perronnin, "What is a good evaluation measure for semantic segmentation?" (BMVC 2013).
std::vector<std::optional<double>> boundary_f1(const ClassMaps& maps, double tolerance);

}  // namespace millrace
