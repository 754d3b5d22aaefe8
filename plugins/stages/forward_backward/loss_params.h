// The table `loss` of forward_backward and forward.
#pragma once

#include <string>

#include "millrace/backend.h"
#include "millrace/params.h"

namespace millrace {

struct LossParams {
  std::string rule = "cross_entropy";
  double label_smoothing = 0;
  std::string reduction = "mean";

  static void describe(ParamSet<LossParams>& set);
  LossSpec spec() const;
};

}  // namespace millrace
