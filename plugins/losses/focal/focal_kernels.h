#pragma once

#include "millrace/labelled_row.h"
#include "millrace/loss_elements.h"
#include "millrace/portable.h"

namespace millrace::losses {

struct FocalKernel {
  static constexpr int kReads = kLabelledReads, kWrites = kLabelledWrites;
  double gamma;

  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const LabelledRow<Row> at(row);
    if (at.counts == 0) return at.put_nothing();
    const double log_total = at.log_total();
    const Term of_label = term(at.output(at.label) - log_total), of_second = term(at.output(at.second) - log_total);
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

 private:
  // The loss of one label, and its derivative by log p.
  struct Term {
    double loss, slope;
  };
  MILLRACE_KERNEL Term term(double log_p) const {
    const double rest = -expm1(log_p), focus = pow(rest, gamma);  // 1 - p, which keeps its digits near p = 1
    const double of_focus = rest > 0 ? gamma * focus / rest * exp(log_p) * log_p : 0;
    return {-focus * log_p, of_focus - focus};
  }
};

MILLRACE_LOSS_KERNELS(FocalKernel)

}  // namespace millrace::losses
