// Muon, Keller Jordan 2024, kellerjordan.github.io/posts/muon, and airbench94_muon.py for `normalise`:
//   v = momentum * v + gradient;  u = nesterov ? gradient + momentum * v : v;  X = u made orthogonal (orthogonalise.h)
//   w = w - rate * (decay * w + sqrt(max(1, rows / columns)) * X)
// normalise: w = w * sqrt(rows) / |w| comes first.
#pragma once

#include "millrace/kernels/update_kernel.h"

namespace millrace {

struct MuonKernel {
  static constexpr int kStates = 1;  // v
  float momentum;
  bool nesterov, normalise;
  MILLRACE_KERNEL float before(const UpdateNumbers&, float gradient, float, float (&states)[1]) const {
    states[0] = momentum * states[0] + gradient;
    return nesterov ? gradient + momentum * states[0] : states[0];
  }
  // A parameter at rest (rate 0) is not normalised either.
  MILLRACE_KERNEL void operator()(const UpdateNumbers& n, float direction, float& value, float (&)[1]) const {
    const float length = normalise && n.rate > 0 && n.value_norm > 0 ? sqrtf(n.rows) / n.value_norm : 1.0F;
    const float scale = n.rows > n.columns ? sqrtf(n.rows / n.columns) : 1.0F;
    value *= length;
    value -= n.rate * (n.decay * value + scale * direction);
  }
};

}  // namespace millrace

MILLRACE_MATRIX_KERNEL(millrace::MuonKernel)
