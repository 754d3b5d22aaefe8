// Compares an engine's results with known ones (millrace/backend/window_check.h), and checks that it stays in its memory.
//
// For large operands, one image is repeated for all samples, and only the first and last sample of a result are compared.
#pragma once

#include <cstddef>
#include <vector>

#include "machine.h"
#include "millrace/backend/engine_choices.h"
#include "millrace/backend/window_check.h"

namespace millrace::cuda {

class EngineCheck {
 public:
  static constexpr std::size_t kGuard = std::size_t{64} << 10;  // bytes around each operand and the workspace

  static constexpr std::size_t kMaxHeld = std::size_t{8} << 20;

  // `most_held`: size in bytes of a batch's maps up to which each sample has different numbers.
  explicit EngineCheck(const ConvolutionShape& shape, std::size_t most_held = kMaxHeld);
  explicit EngineCheck(const LinearShape& shape, std::size_t most_held = kMaxHeld);

  const std::string& key() const { return key_; }  // the shape, in one line

  // Runs the plan on `work`, whose pointers are kGuard bytes away from any other memory. Waits.
  Fault find_fault(Queue& queue, const LibraryRun& work, std::size_t workspace) const;

 private:
  struct Operand {
    ElementOffsets elements;  // elements made by the host
    std::size_t held = 0;     // their size in bytes
    std::size_t bytes = 0;    // total; a multiple of `held`
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
  std::int64_t repeated_ = 1;  // samples per one made by the host
  std::vector<float> bias_;    // read with y as the result
  std::size_t bias_bytes_ = 0;
  bool relu_ = false, known_ = true;  // false: results after a GELU are not compared
  bool narrow_ = false;               // a bf16 convolution's weight gradient: cuDNN writes bf16, later converted to float32
};

}  // namespace millrace::cuda
