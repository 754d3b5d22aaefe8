#pragma once

#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/portable.h"
#include "millrace/metrics/labelled_row.h"

namespace millrace::losses {

struct CrossEntropyKernel {
  static constexpr int kReads = kLabelledReads, kWrites = kLabelledWrites;
  double smoothing;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const LabelledRow<Row> at(row);
    if (at.counts == 0) return at.put_nothing();
    const double log_total = at.log_total(), uniform = smoothing / static_cast<double>(row.channels());
    const double of_label = at.class_weight(at.label), of_second = at.class_weight(at.second);
    // With targets t: the sums of w * t and of w * t * output.
    double targets = (1 - smoothing) * at.mixed(of_label, of_second);
    double meant = (1 - smoothing) * at.mixed(of_label * at.output(at.label), of_second * at.output(at.second));
    if (smoothing != 0) {
      targets += uniform * row.sum([&](auto c) { return at.class_weight(c); });
      meant += uniform * row.sum([&](auto c) { return at.class_weight(c) * at.output(c); });
    }
    at.put(targets * log_total - meant);

    const double scale = at.scale();
    row.each([&](auto c) {
      const double part = (c == at.label ? at.share : 0) + (c == at.second ? 1 - at.share : 0);
      const double target = at.class_weight(c) * (part * (1 - smoothing) + uniform);
      row.out(0, c, static_cast<float>(scale * (targets * exp(at.output(c) - log_total) - target)));
    });
  }
};

MILLRACE_LOSS_KERNELS(CrossEntropyKernel)

}  // namespace millrace::losses
