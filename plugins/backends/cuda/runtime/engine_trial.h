// An engine that a library offers is run on scratch memory before a network depends on it: it may be finalised and still not
// run, or compute something else (engine_check.h). This also loads its code onto the device before any step is timed.
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
  DataType type = DataType::f32;  // of what it is filled with
};

// What a plan reads and writes.
struct TrialOperands {
  TrialOperand x, w, y, bias;
  bool accumulate = false;                        // the result is added to x: checked by its numbers
  std::shared_ptr<const EngineCheck> check = {};  // null: results are not looked at

  static TrialOperands of(const ConvolutionShape& shape);
  static TrialOperands of(const LinearShape& shape);
};

// Runs plans of one shape, one after another, each with small random numbers for operands. The scratch memory is taken with the
// first plan and given back with the trial. `queue` is of `machine`, and is used by nothing else meanwhile. One thread at a time.
//
//   EngineTrial trial(machine, queue, TrialOperands::of(shape));
//   std::string why_not;
//   if (const auto seconds = trial.run(plan, true, why_not)) ...
class EngineTrial {
 public:
  EngineTrial(Machine& machine, Queue& queue, const TrialOperands& operands);

  // Seconds that the plan takes, the best of several runs, once its code is loaded and with operands that the device's cache does
  // not hold, as in a step; without `timed` it runs once and the answer is 0.
  // Infinity: there is not the memory to try it. Nothing: it fails, computes something else or writes outside of its memory, does
  // not add to what x holds, or there is not the memory to see whether it adds; `why_not` says so. Throws Error(device) that
  // names the engine when the device does not recover from the run: nothing can go on then.
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

// Whether every `after` is `before` + `added`, up to the rounding of bf16. REQUIRES: equal sizes.
bool is_sum(const std::vector<float>& before, const std::vector<float>& added, const std::vector<float>& after);

}  // namespace millrace::cuda
