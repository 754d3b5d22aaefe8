#pragma once

#include <math.h>

#include "millrace/kernels/kernel.h"

namespace millrace::losses {

// The focal loss for a class of probability exp(log_p), and its derivative by log_p.
struct FocalTerm {
  double loss, slope;

  MILLRACE_KERNEL FocalTerm(double log_p, double gamma) {
    const double rest = -expm1(log_p), focus = pow(rest, gamma);  // 1 - p, accurate near p = 1
    const double of_focus = rest > 0 ? gamma * focus / rest * exp(log_p) * log_p : 0;
    loss = -focus * log_p;
    slope = of_focus - focus;
  }
};

}  // namespace millrace::losses
