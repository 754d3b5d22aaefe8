// Runs a kernel once on scratch memory and compares all of its results with what is known beforehand (backend/window_check.h).
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

// A kernel's task. Its operands are named as those of WindowShape.
struct Trial {
  WindowShape shape;
  WindowOperand result = WindowOperand::y;
  TrialOperand x, w, y;
  bool bias = false;          // float32, by channel of y: read with y as the result, written with w
  bool relu = false;          // of y
  std::size_t scratch = 0;    // bytes
  double rounding = 0x1p-21;  // WindowRounding::of_term
};

struct TrialMemory {
  void *x = nullptr, *w = nullptr, *y = nullptr;
  float* bias = nullptr;
  void* scratch = nullptr;
};

// What is wrong: a value, or a write outside of what the kernel was given. Runs on the calling thread's team, in `memory`, which
// grows as it has to. Nothing is found, and nothing tried, where that would take more than a gibibyte.
Fault find_fault(const Trial& trial, MemoryRegion& memory, const std::function<void(const TrialMemory&)>& kernel);

}  // namespace millrace::cpu
