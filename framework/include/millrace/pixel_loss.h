// What losses of images of classes share: the figures accuracy, mean_accuracy and mean_iou. The kernel's half is in pixel_row.h.
//
//   static void describe(LossDescription<Params>& d) {
//     d.name("hinge").text("...").example("", {4, 6, 5});
//     describe_pixels(d);
//   }
#pragma once

#include "millrace/loss.h"

namespace millrace {

// Immutable and thread-safe.
class PixelLoss : public Loss {
 protected:
  static constexpr int kCorrect = 2, kPixels = 3;  // sums that a kernel writes, beside LossPass::predicted()

  // Sums and figures. D: a LossDescription.
  template <class D>
  static void describe_pixels(D& d) {
    d.target(LossTarget::classes).sum("correct").sum("pixels").class_matrix();
    const auto add = [&](const char* name, const char* text, double (*finish)(std::span<const double>)) {
      d.figure({.name = name, .text = text, .better = LossFigure::Better::higher, .percent = true, .finish = finish});
    };
    add("accuracy", "pixels whose class has the largest output",
        [](std::span<const double> sums) { return quotient(sums[kCorrect], sums[kPixels]); });
    add("mean_accuracy", "the same of each class, averaged over classes that occur", mean_accuracy);
    add("mean_iou", "intersection over union of each class, averaged over classes that occur", mean_iou);
  }

 private:
  static double mean_accuracy(std::span<const double> sums);
  static double mean_iou(std::span<const double> sums);
};

}  // namespace millrace
