// A loss, and where in a network it is measured. Part of batch.h and loss.h.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "millrace/detail/layer_plan.h"

namespace millrace {

class Loss;

// A loss, and the network's value at which it is measured.
struct LossAt {
  std::shared_ptr<const Loss> loss;
  std::optional<LayerPort> output;  // an output that no layer reads; empty: the network's result
  double weight = 1;                // weight in the minimised sum
  bool add_up = false;              // reduction = "sum": gradients of the sum over the global batch instead of the mean

  LossAt(std::shared_ptr<const Loss> of = {}, std::optional<LayerPort> at = {})  // NOLINT: a loss alone is measured at the result
      : loss(std::move(of)), output(at) {}

  // Divisor of the gradient, for a global batch of this weight (Loss::weight()).
  double divisor(double batch_weight) const { return (add_up || batch_weight <= 0 ? 1 : batch_weight) / weight; }
};

}  // namespace millrace
