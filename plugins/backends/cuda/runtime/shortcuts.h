// Ways to move fewer bytes, or to launch less. Each can be disabled:
// MILLRACE_CUDA_WITHOUT=accumulate,sign_bits,last_block,norm_pool,recordings. Results depend on them only by rounding:
// `accumulate` rounds a sum of two gradients once instead of twice, and `last_block` adds in another order. Recordings are tried
// on the device before use, engines that accumulate when they are chosen; tests/gpu/kernels tests the others.
#pragma once

#include "machine.h"

namespace millrace::cuda {

struct Shortcuts {
  bool accumulate = true;  // a convolution's gradient of its input is added to what is there (beta = 1); no Add after it
  bool sign_bits = true;   // a ReLU after an addition keeps a bit of each value for backward, which reads it instead of y
  bool last_block = true;  // the last block of a sum over rows finishes it; no second kernel
  bool norm_pool = true;   // a max pooling after a batch norm and its ReLU is computed with them; no map between them
  bool recordings = true;  // the passes of a training step are recorded, with marks that each launch sets again

  // All except those in the variable. Throws Error(usage) for unknown names.
  static Shortcuts from_environment();

  friend bool operator==(const Shortcuts&, const Shortcuts&) = default;
};

// Launches a recording and waits for its mark. If that fails, it warns once for each device and process. Success is stored
// (Machine::choices()), failure is not, since it may pass. Throws Error(device) if the device is lost.
bool recordings_work(Machine& machine);

}  // namespace millrace::cuda
