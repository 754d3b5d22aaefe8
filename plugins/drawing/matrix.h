// What each class was predicted as, as a picture.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/metrics/class_matrix.h"
#include "picture.h"

namespace millrace::drawing {

// Where the cells lie: that of class `of` predicted as `as` has its top left corner at (left + as * cell, top + of * cell).
struct MatrixLayout {
  double cell = 0;  // from 40 units for up to 24 classes down to half of one for more than 1000
  double top = 0, left = 0;
  double name_size = 0;        // of letters
  std::size_t name_every = 1;  // so many classes stand between two names, where there is no room for all
};
MatrixLayout matrix_layout(const std::vector<std::string>& names);

// From white to the full colour with the square root of the share: one of a hundred can still be seen. What is right is blue,
// what is wrong is red.
Colour share_colour(double share, bool right);

// A row for each class, a column for each predicted class, a cell coloured by its share of the row. Cells hold the count and
// the share where both fit, else the share in whole per cents, and nothing where that is too wide. Rows of classes that do not
// occur are grey. `heading`: such as "validate, epoch 3". REQUIRES: a name for each class.
Picture confusion(const ClassMatrix& matrix, const std::vector<std::string>& names, bool of_pixels,
                  const std::string& heading = {});

inline constexpr std::size_t kMostDrawnClasses = 4000;  // of a picture of 50 MB
std::size_t confusion_memory_bound(std::size_t classes);  // bytes while it is drawn and written; 0: it is not drawn

}  // namespace millrace::drawing
