// Ways to move fewer bytes, or to launch less, that a device may refuse. Each is tried before a network is planned with it, and
// each can be switched off: MILLRACE_CUDA_WITHOUT=accumulate,sign_bits,last_block,norm_pool,recordings names those to do
// without.
// Results do not depend on them, but for rounding: `accumulate` rounds a sum of two gradients once instead of twice, and
// `last_block` adds in another order.
#pragma once

#include <string>
#include <vector>

#include "machine.h"

namespace millrace::cuda {

struct Shortcuts {
  bool accumulate = true;  // a convolution's gradient of its input is added to what is there (beta = 1); no Add after it
  bool sign_bits = true;   // a ReLU after an addition keeps a bit of each value for backward, which reads it instead of y
  bool last_block = true;  // the last block of a sum over rows finishes it; no second kernel
  bool norm_pool = true;   // a max pooling after a batch norm and its ReLU is computed with them; no map between them
  bool recordings = true;  // the passes of a training step are recorded, with marks that each launch sets again

  // All but those that the variable names. Throws Error(usage) for a name that is none of these.
  static Shortcuts from_environment();

  friend bool operator==(const Shortcuts&, const Shortcuts&) = default;
};

// Computes a small batch norm with and without the shortcuts that are kernels of our own (last_block, sign_bits, norm_pool),
// launches a recording whose mark is waited for, and switches off what differs or fails. Each is tried once on a device
// (Machine::tried()): `refused` gets a sentence for what has just been tried. Throws Error(device) when the device is lost. (A
// library's engines are tried when they are chosen.)
Shortcuts try_shortcuts(Machine& machine, Shortcuts wanted, std::vector<std::string>& refused);

}  // namespace millrace::cuda
