// Convolutions and matrix products in plain loops, summed in double: the simulated machine's library.
//
// Results are rounded once, after bias and activation. Sums include padding channels like a library's, except for group counts
// other than one and the number of channels; then the result's padding is written as zeros.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/machine.h"

namespace millrace::cuda {

class LoopPlan : public LibraryPlan, public std::enable_shared_from_this<LoopPlan> {
 public:
  struct Use {
    void* memory = nullptr;
    std::size_t bytes = 0;
    bool write = false;
  };
  virtual const char* name() const = 0;  // "convolution forward"
  // All memory that execute() touches. Throws Error(device) for pointers that libraries refuse: null, or not aligned to 16 bytes
  // (the workspace: to 256).
  virtual std::vector<Use> uses(const LibraryRun& run) const = 0;
  virtual void execute(const LibraryRun& run) const = 0;
  std::string engine() const override { return "loops"; }
};

// Throw Error(usage) if the extents are inconsistent.
std::shared_ptr<const LibraryPlan> plan_in_loops(const ConvolutionShape& shape);
std::shared_ptr<const LibraryPlan> plan_in_loops(const LinearShape& shape);

// Sizes of the operands in bytes, with machine.h's layout.
struct OperandBytes {
  std::size_t x = 0, w = 0, y = 0, bias = 0;
};
OperandBytes operand_bytes(const ConvolutionShape& shape);
OperandBytes operand_bytes(const LinearShape& shape);

}  // namespace millrace::cuda
