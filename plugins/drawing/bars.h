// Draws class metrics as rows of bars.
#pragma once

#include <string>
#include <vector>

#include "millrace/metrics/class_matrix.h"
#include "picture.h"

namespace millrace::drawing {

struct BarColumn {
  std::string title;
  std::vector<double> values;  // one per row, not negative; non-finite values are shown as a dash
  bool percent = false;        // shares: a full bar is 1
  Colour colour = kBlue;
};

struct BarTable {
  std::string title, subtitle;
  std::vector<std::string> names;  // names of the rows
  std::vector<BarColumn> columns;
};

Picture draw(const BarTable& table);

// Recall, precision and F1 of each class, or accuracy and IoU if the counts are pixels, and the number of occurrences. Above
// kMaxRows classes it shows those of lowest F1 or IoU, lowest first. `heading`: such as "validate, epoch 3".
Picture class_scores(const ClassMatrix& matrix, const std::vector<std::string>& names, bool of_pixels,
                     const std::string& heading);

// The number of occurrences of each class. Above kMaxRows classes it shows the most frequent and the rarest.
Picture label_histogram(const std::vector<double>& counts, const std::vector<std::string>& names, const std::string& heading);

inline constexpr std::size_t kMaxRows = 120;

}  // namespace millrace::drawing
