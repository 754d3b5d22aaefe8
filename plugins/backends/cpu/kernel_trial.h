// Runs a kernel once on scratch memory and compares all of its results with the known ones (backend/window_check.h).
#pragma once

#include <functional>
#include <string>

#include "memory_region.h"
#include "millrace/backend/verdicts.h"
#include "millrace/backend/window_check.h"

namespace millrace::cpu {

struct TrialOperand {
  ElementOffsets elements;
  std::size_t bytes = 0;
};

// A kernel's task. Its operands have the names in WindowShape.
struct Trial {
  WindowShape shape;
  WindowOperand result = WindowOperand::y;
  TrialOperand x, w, y;
  bool bias = false;          // float32, by channel of y: read with y as the result, written with w
  bool relu = false;          // ReLU of y
  std::size_t scratch = 0;    // bytes
  double rounding = 0x1p-21;  // WindowRounding::of_term
};

struct TrialMemory {
  void *x = nullptr, *w = nullptr, *y = nullptr;
  float* bias = nullptr;
  void* scratch = nullptr;
};

// Detects wrong values and writes outside the kernel's memory. Runs on the calling thread's team, in `memory`, which grows as
// needed. Skips the trial if it would take more than a gibibyte.
Fault find_fault(const Trial& trial, MemoryRegion& memory, const std::function<void(const TrialMemory&)>& kernel);

}  // namespace millrace::cpu
