// No kernel is trusted: each one from oneDNN, and each of ours that is chosen by shape, runs once on its own shape before a
// network is trained with it. Kernels with wrong results or writes outside their memory are skipped.
//
// A trial uses fewer samples than the network, one per thread of the team, if oneDNN uses the same implementation for them: known
// defects depend on rows, channels and windows. Verdicts are stored (backend/engine_choices.h). Copies between layouts are
// checked as well. oneDNN's reference loops, the last resort, are trusted where running them would take long.
//
// Threading: on the replica's thread, with its team.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "memory_region.h"
#include "millrace/backend/engine_choices.h"
#include "millrace/backend/window_check.h"
#include "window_sum.h"

namespace millrace::cpu {

struct TrialOperand {
  ElementOffsets elements;
  std::size_t bytes = 0;
};

// A kernel's task, whose results are known (backend/window_check.h). Its operands have the names in WindowShape.
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

// The instructions that oneDNN uses here, and its version, for engine_choices_file().
std::string kernel_versions();

// The operand in memory with layout `desc`. REQUIRES: a layout of strides and blocks.
TrialOperand trial_operand(const dnnl::memory::desc& desc);

// A sum's operands as they lie, without scratch memory. REQUIRES: no layout is "any".
Trial trial_of(const WindowSum& sum);

class PrimitiveChecks {
 public:
  PrimitiveChecks() = default;  // checks nothing
  PrimitiveChecks(std::shared_ptr<EngineChoices> choices, EngineChoices::Warn warn)
      : choices_(std::move(choices)), warn_(std::move(warn)), memory_(std::make_shared<MemoryRegion>()) {}

  // Same as window_sum.h's describe(), without implementations known to be wrong: a warning names each once. Throws dnnl::error
  // if none is left.
  dnnl::primitive_desc_base describe(const dnnl::engine& engine, const WindowSum& sum) const;
  // True if it computes correctly. If not, describe() returns another one from now on.
  bool is_right(const WindowSum& sum, const dnnl::primitive_desc_base& chosen) const;
  // Repeats describe() until the result is correct.
  dnnl::primitive_desc_base first_right(const dnnl::engine& engine, const WindowSum& sum) const;
  // True if one of our kernels computes correctly. `name`: the kernel and its shape, in one line.
  bool is_right(const std::string& name, const Trial& trial, const std::function<void(const TrialMemory&)>& kernel) const;

  // Checks both copies between two layouts or types of one tensor. Throws Error(device) if one is wrong: there is no alternative.
  void require_right_copies(const dnnl::memory::desc& one, const dnnl::memory::desc& other) const;

  void release_memory() const {  // memory of the trials
    if (memory_) *memory_ = MemoryRegion();
  }

 private:
  void pass_over(const std::string& key, const std::string& name, const Fault& fault) const;

  std::shared_ptr<EngineChoices> choices_;
  EngineChoices::Warn warn_;
  std::shared_ptr<MemoryRegion> memory_;
};

}  // namespace millrace::cpu
