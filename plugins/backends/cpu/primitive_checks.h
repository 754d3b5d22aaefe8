// No kernel is trusted: each that oneDNN offers, and each of ours that is chosen by its shape, is run once on its own shape
// before a network is trained with it (kernel_trial.h). One that computes something else, or writes outside of its memory, is
// passed over.
//
// It is run on fewer samples than the network has, one for each thread of the team, as long as oneDNN takes the same
// implementation for them: what is known of wrong kernels depends on rows, channels and windows. Verdicts are remembered
// (backend/verdicts.h). Copies between layouts are checked as well. oneDNN's reference loops, the last resort, are taken at their
// word where running them would take long.
//
// Threading: on the replica's thread, with its team.
#pragma once

#include <memory>

#include "kernel_trial.h"
#include "millrace/backend/verdicts.h"
#include "window_sum.h"

namespace millrace::cpu {

// What verdicts on this processor depend on: its model, its instructions as far as oneDNN uses them, and oneDNN's version.
std::string verdicts_depend_on();

// What lies in memory as `desc` says. REQUIRES: a layout of strides and blocks.
TrialOperand trial_operand(const dnnl::memory::desc& desc);

class PrimitiveChecks {
 public:
  PrimitiveChecks() = default;  // checks nothing
  PrimitiveChecks(std::shared_ptr<Verdicts> verdicts, Verdicts::Warn warn)
      : verdicts_(std::move(verdicts)), warn_(std::move(warn)), memory_(std::make_shared<MemoryRegion>()) {}

  // As window_sum.h's describe(), without implementations that are known to be wrong: a warning names each once. Throws
  // dnnl::error where none is left.
  dnnl::primitive_desc_base describe(const dnnl::engine& engine, const WindowSum& sum) const;
  // Whether it computes rightly. If not, describe() gives another one from now on.
  bool is_right(const WindowSum& sum, const dnnl::primitive_desc_base& chosen) const;
  // Describes until what is described was found right.
  dnnl::primitive_desc_base first_right(const dnnl::engine& engine, const WindowSum& sum) const;
  // Whether a kernel of ours computes rightly. `name`: of the kernel and its shape, in a line.
  bool is_right(const std::string& name, const Trial& trial, const std::function<void(const TrialMemory&)>& kernel) const;

  // Both copies between two layouts or types of one tensor. Throws Error(device) where one is wrong: there is no other way.
  void require_right_copies(const dnnl::memory::desc& one, const dnnl::memory::desc& other) const;

  void release_memory() const {  // that checks have run in
    if (memory_) *memory_ = MemoryRegion();
  }

 private:
  void pass_over(const std::string& key, const std::string& name, const Fault& fault) const;

  std::shared_ptr<Verdicts> verdicts_;
  Verdicts::Warn warn_;
  std::shared_ptr<MemoryRegion> memory_;
};

}  // namespace millrace::cpu
