// For the tests of this folder: networks from text, an independent reference in double, and a manually driven executable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executable.h"
#include "parameter_store.h"

namespace millrace::cpu::test {

using Values = std::vector<double>;

// A network from the network language.
std::shared_ptr<const Network> network_of(const std::string& toml);
std::shared_ptr<const Network> network_from(const std::string& path);  // relative to the source tree

// Smooth, repeatable numbers in [-1, 1].
std::vector<float> noise(std::size_t size, std::uint64_t seed);

// Values for every parameter: weights scaled to keep activations near 1, statistics near (0, 1).
std::vector<std::vector<float>> parameter_values(const Network& network, std::uint64_t seed);

// The plainest possible forward pass, in double and in NCHW: the reference for every operation.
Values reference_logits(const Network& network, const std::vector<Values>& parameters, const Values& input, std::int64_t samples,
                        bool training);
double reference_loss(const Values& logits, const std::vector<std::int32_t>& labels, double smoothing);

// An executable with its environment, on this thread, with access to inputs and gradients.
class Laboratory {
 public:
  // `options`: all except the batches.
  Laboratory(std::shared_ptr<const Network> network, std::int64_t samples, bool training, const CompileOptions& options = {},
             const PrimitiveChecks& checks = {});

  void write(int parameter, const std::vector<float>& values);
  std::vector<float> read(std::string_view state, int parameter);
  void set_input(const std::vector<float>& values);  // (N, C, H, W)
  std::vector<float> forward();
  // Cross-entropy, averaged unless `sum`, and its gradient; then the network's gradients.
  double loss(const std::vector<std::int32_t>& labels, double smoothing = 0, bool sum = false);
  void backward() {
    executable_->backward({}, [](int) {});
  }

  Executable& executable() { return *executable_; }
  std::vector<float> d_logits() const;
  std::span<const std::byte> arena() const { return {arena_.as<std::byte>(), arena_.bytes()}; }

 private:
  std::shared_ptr<const Network> network_;
  CompileOptions options_;
  ParameterStore parameters_;
  std::unique_ptr<CompileContext> compile_context_;
  std::unique_ptr<Executable> executable_;
  MemoryRegion arena_;
};

double relative_difference(const std::vector<float>& values, const std::vector<float>& expected);

}  // namespace millrace::cpu::test
