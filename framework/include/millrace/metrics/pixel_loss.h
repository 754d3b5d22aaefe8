// The shared part of losses for images of classes: the metrics accuracy, mean_accuracy, mean_precision, mean_f1, mean_iou and
// weighted_iou. The kernel's half is in pixel_row.h.
//
//   static void describe(LossDescription<Params>& d) {
//     d.name("hinge").text("...").example("", {4, 6, 5});
//     describe_pixels(d);
//   }
#pragma once

#include "millrace/loss.h"
#include "millrace/metrics/class_matrix.h"

namespace millrace {

// Immutable and thread-safe.
class PixelLoss : public Loss {
 protected:
  static constexpr int kCorrect = 2, kPixels = 3;  // sums that a kernel writes, in addition to LossPass::predicted()

  // Adds sums and metrics. D: a LossDescription.
  template <class D>
  static void describe_pixels(D& d) {
    d.target(LossTarget::classes).sum("correct").sum("pixels").class_matrix();
    d.figure({.name = "accuracy",
              .text = "pixels whose class has the largest output",
              .better = LossFigure::Better::higher,
              .percent = true,
              .finish = [](std::span<const double> sums) { return quotient(sums[kCorrect], sums[kPixels]); }});
    describe_class_figures<kPixels + 1, ClassMatrix>(d);
  }
};

}  // namespace millrace
