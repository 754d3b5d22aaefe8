// What an engine computes, beside what is known beforehand (millrace/backend/window_check.h), and whether it stays in its memory.
//
// Where operands are large, one image is repeated for all samples, and the first and the last sample of a result are compared.
#pragma once

#include <cstddef>
#include <vector>

#include "machine.h"
#include "millrace/backend/verdicts.h"
#include "millrace/backend/window_check.h"

namespace millrace::cuda {

class EngineCheck {
 public:
  static constexpr std::size_t kGuard = std::size_t{64} << 10;  // bytes around each operand and the workspace

  static constexpr std::size_t kMostHeld = std::size_t{8} << 20;

  // `most_held`: bytes of a batch's maps up to which each sample has different numbers.
  explicit EngineCheck(const ConvolutionShape& shape, std::size_t most_held = kMostHeld);
  explicit EngineCheck(const LinearShape& shape, std::size_t most_held = kMostHeld);

  const std::string& key() const { return key_; }  // the shape, in a line

  // Runs the plan on `work`, whose pointers are kGuard bytes away from any other memory. Waits.
  Fault find_fault(Queue& queue, const LibraryRun& work, std::size_t workspace) const;

 private:
  struct Operand {
    ElementOffsets elements;  // of what the host makes
    std::size_t held = 0;     // bytes of that
    std::size_t bytes = 0;    // of all; a multiple of `held`
  };

  void set_samples(std::int64_t samples, std::size_t most_held);
  const Operand& of(WindowOperand operand) const;
  static void* at(const LibraryRun& work, WindowOperand operand);
  void write(Queue& queue, const WindowCheck& check, WindowOperand operand, void* to) const;
  Fault compare(Queue& queue, const WindowCheck& check, const void* from) const;
  Fault find_hidden_nan(Queue& queue, const LibraryRun& work) const;
  static Fault guards(Queue& queue, const std::vector<std::pair<void*, std::size_t>>& parts, bool set);

  std::string key_;
  WindowShape shape_;
  WindowOperand result_ = WindowOperand::y;
  Operand x_, w_, y_;
  std::int64_t repeated_ = 1;  // samples for each that the host makes
  std::vector<float> bias_;    // read with y as the result
  std::size_t bias_bytes_ = 0;
  bool relu_ = false, known_ = true;  // false: results that a GELU has changed are not compared
  bool narrow_ = false;               // a bf16 convolution's gradient of weights: cuDNN writes bf16, which then becomes float32
};

}  // namespace millrace::cuda
