// accuracy and top5 of images with one class each: figures of a loss, whose kernel counts what they are made of
// (millrace/kernels/labelled_row.h).
#pragma once

#include <span>

#include "millrace/loss.h"

namespace millrace {

struct Accuracy {
  // Sums of a loss, after those of its value and weight. Of an image mixed of two, the label with the larger share counts.
  static constexpr int kCorrect = 2, kCorrect5 = 3, kImages = 4;

  // D: a LossDescription without other sums.
  template <class D>
  static void describe(D& d) {
    d.sum("correct").sum("correct5").sum("images");
    d.figure({.name = "accuracy",
              .text = "images whose class has the largest output",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[kCorrect], sums[kImages]); }});
    d.figure({.name = "top5",
              .text = "images whose class is among the five largest outputs",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[kCorrect5], sums[kImages]); },
              .least_outputs = 6});
  }
};

}  // namespace millrace
