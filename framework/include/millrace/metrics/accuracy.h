// Metrics accuracy and top5 for images with one class each; the loss's kernel counts their sums
// (millrace/metrics/labelled_row.h).
#pragma once

#include <vector>

#include "millrace/loss.h"

namespace millrace {

struct Accuracy {
  // Sums of a loss, after those of its value and weight. For an image mixed from two, the label with the larger share counts.
  static constexpr int kCorrect = 2, kCorrect5 = 3, kImages = 4;

  static const std::vector<LossFigure>& figures();  // accuracy and top5

  // D: a LossDescription without other sums.
  template <class D>
  static void describe(D& d) {
    d.sum("correct").sum("correct5").sum("images");
    for (const LossFigure& each : figures()) d.figure(each);
  }
};

}  // namespace millrace
