#pragma once

#include "focal_term.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/kernels/portable.h"
#include "millrace/metrics/labelled_row.h"

namespace millrace::losses {

struct FocalKernel {
  static constexpr int kReads = kLabelledReads, kWrites = kLabelledWrites;
  double gamma;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const LabelledRow<Row> at(row);
    if (at.counts == 0) return at.put_nothing();
    const double log_total = at.log_total();
    const FocalTerm of_label(at.output(at.label) - log_total, gamma), of_second(at.output(at.second) - log_total, gamma);
    const double first = at.class_weight(at.label), other = at.class_weight(at.second);
    at.put(at.mixed(first * of_label.loss, other * of_second.loss));

    // log p[label] changes by (c == label) - p[c] with output c.
    const double label_slope = at.share * first * of_label.slope, second_slope = (1 - at.share) * other * of_second.slope;
    const double scale = at.scale();
    row.each([&](auto c) {
      const double named = (c == at.label ? label_slope : 0) + (c == at.second ? second_slope : 0);
      row.out(0, c, static_cast<float>(scale * (named - (label_slope + second_slope) * exp(at.output(c) - log_total))));
    });
  }
};

MILLRACE_LOSS_KERNELS(FocalKernel)

}  // namespace millrace::losses
