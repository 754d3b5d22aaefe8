// Draws a class matrix: predictions for each class.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/metrics/class_matrix.h"
#include "picture.h"

namespace millrace::drawing {

// Positions of the cells: the one of class `of` predicted as `as` has its top left corner at (left + as * cell, top + of * cell).
struct MatrixLayout {
  double cell = 0;  // from 40 units for up to 24 classes to half a unit above 1000
  double top = 0, left = 0;
  double name_size = 0;        // size of letters
  std::size_t name_every = 1;  // every n-th class has a name if space is short
};
MatrixLayout matrix_layout(const std::vector<std::string>& names);

// From white to the full colour with the square root of the share: 1 % stays visible. Correct predictions are blue, wrong ones
// red.
Colour share_colour(double share, bool right);

// A row for each class, a column for each predicted class, a cell coloured by its share of the row. Cells show the count and the
// share if both fit, else the share in whole per cent, else nothing. Rows of absent classes are grey. `heading`: such as
// "validate, epoch 3". REQUIRES: a name for each class.
Picture confusion(const ClassMatrix& matrix, const std::vector<std::string>& names, bool of_pixels,
                  const std::string& heading = {});

inline constexpr std::size_t kMaxDrawnClasses = 4000;  // for a picture of 50 MB
std::size_t confusion_memory_bound(std::size_t classes);  // bytes while drawing and writing; 0 if it is not drawn

}  // namespace millrace::drawing
