// The class matrix as a picture.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/util/class_matrix.h"
#include "millrace/util/picture.h"

namespace millrace {

// Where the cells lie: that of class `of` predicted as `as` has its top left corner at (top + of * cell, left + as * cell), and
// cell - 1 pixels each way; the last one is a line between cells where there is room for lines.
struct MatrixLayout {
  int cell = 0;  // from 80 pixels for up to 24 classes down to 1 for more than 960
  int top = 0, left = 0;
  int name_size = 0;  // of the letters of the names, in dots of Picture; 0: there is no room for names
};
MatrixLayout matrix_layout(const std::vector<std::string>& names);

// From white to the full colour with the square root of the share: one of a hundred can still be seen. What is right is blue,
// what is wrong is red.
Colour share_colour(double share, bool right);

// A row for each class, a column for each predicted class, a cell coloured by its share of the row. Cells hold the count and
// the share where both fit, else the share in whole per cents, and nothing where that is too wide. Rows of classes that do not
// occur are grey. The same counts give the same pixels.
// `counted`: what the numbers are of, in the heading. REQUIRES: a name for each class.
Picture matrix_picture(const ClassMatrix& matrix, const std::vector<std::string>& names, std::string_view counted = "images");

inline constexpr std::size_t kMostDrawnClasses = 4000;  // of a picture of 50 MB

}  // namespace millrace
