// Runs a library's engine on scratch memory before a network depends on it: it may be finalised and still fail to run, or compute
// wrong results (engine_check.h). This also loads its code onto the device before any step is timed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine_check.h"
#include "machine.h"

namespace millrace::cuda {

struct TrialOperand {
  std::size_t bytes = 0;
  DataType type = DataType::f32;  // type of its fill values
};

// Inputs and outputs of a plan.
struct TrialOperands {
  TrialOperand x, w, y, bias;
  bool accumulate = false;                        // the result is added to x: verified numerically
  std::shared_ptr<const EngineCheck> check = {};  // null: results are not checked

  static TrialOperands of(const ConvolutionShape& shape);
  static TrialOperands of(const LinearShape& shape);
};

// Runs plans of one shape, one after another, each with small random numbers for operands. The scratch memory is allocated with
// the first plan and freed with the trial. `queue` belongs to `machine`, with no other user meanwhile. Not thread-safe.
//
//   EngineTrial trial(machine, queue, TrialOperands::of(shape));
//   std::string why_not;
//   if (const auto seconds = trial.run(plan, true, why_not)) ...
class EngineTrial {
 public:
  EngineTrial(Machine& machine, Queue& queue, const TrialOperands& operands);

  // Seconds of a warm run, the best of several; without `timed` it runs once and returns 0. Infinity: not enough memory to try
  // it. Empty: it fails, computes wrong results or writes outside its memory, does not add to x, or there is not enough memory to
  // test that; `why_not` holds the reason. Throws Error(device) with the engine's name if the device does not recover from the
  // run: nothing can continue then.
  std::optional<double> run(const LibraryPlan& plan, bool timed, std::string& why_not);

 private:
  bool prepare(std::size_t workspace);
  void fill(std::byte* to, const TrialOperand& operand, double scale);
  std::vector<float> sample_x();
  bool adds(const LibraryRun& work);
  void refill();
  Fault find_fault(const LibraryPlan& plan);
  double time(const LibraryRun& work);
  void reserve_flush();
  void finish();
  bool device_works() noexcept;

  Machine& machine_;
  Queue& queue_;
  const TrialOperands operands_;
  DeviceMemory scratch_, workspace_;
  DeviceMemory flush_;  // as large as the device's cache: written, it leaves nothing else there
  LibraryRun work_;
};

// True if every `after` is `before` + `added`, up to the rounding of bf16. REQUIRES: equal sizes.
bool is_sum(const std::vector<float>& before, const std::vector<float>& added, const std::vector<float>& after);

}  // namespace millrace::cuda
