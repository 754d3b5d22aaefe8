// A loss prepared for one network: its kernels as elements with addresses. Backends locate the tensors and submit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "millrace/loss.h"

namespace millrace {

// Addresses of one pass's tensors. Numbers per sample are float32, classes too. Owns nothing.
struct LossTensors {
  std::int64_t samples = 0;
  TensorView output, d_output;     // by channel; d_output.data is null if no gradient is wanted
  const float* weights = nullptr;  // (samples)
  // (samples), for LossTarget::labels
  const float *labels = nullptr, *second_labels = nullptr, *shares = nullptr;
  TensorView target;                 // for LossTarget::classes: (samples, pixels), one number per place; for values: like the
                                     // output
  const float* constants = nullptr;  // LossPlan::constants()
  double divisor = 1;
};

// Immutable and thread-safe.
class LossPlan {
 public:
  // Throws Error(usage) if the loss's calls do not fit its declaration.
  LossPlan(std::shared_ptr<const Loss> loss, const Shape& output);

  const Loss& loss() const { return *loss_; }
  std::size_t sums() const { return sums_; }  // size of a pass's result: the sums, then the class matrix or totals
  const std::vector<float>& constants() const { return constants_; }
  // Bytes for run(), aligned to 16; afterwards it begins with the sums, in double.
  std::size_t workspace(std::int64_t samples) const;

  using Submit = std::function<void(const Kernel& kernel, const void* element)>;
  // Each element reads results of earlier ones. Elements are copied.
  void run(const LossTensors& tensors, std::byte* workspace, const Submit& submit) const;

 private:
  struct Workspace;
  void check_call(std::size_t index) const;
  PortableElement extents_of(const PassCall& call, std::int64_t samples) const;
  TensorView view_of(const PassTensor& tensor, const LossTensors& tensors, const Workspace& at) const;
  void run_call(const PassCall& call, const LossTensors& tensors, const Workspace& at, const Submit& submit) const;
  void run_sums(const LossTensors& tensors, const Workspace& at, const Submit& submit) const;
  void run_matrix(const LossTensors& tensors, const Workspace& at, const Submit& submit) const;
  void run_totals(const LossTensors& tensors, const Workspace& at, const Submit& submit) const;
  std::int64_t chunks_of_pairs(std::int64_t places) const;

  const std::shared_ptr<const Loss> loss_;
  std::int64_t channels_, pixels_;
  std::size_t figures_, pairs_, class_totals_, sums_, maps_ = 0, totals_ = 0;
  std::vector<PassCall> calls_;
  std::vector<float> constants_;
};

// The plans of a network's losses, each made when it is first used. Threading: one thread at a time.
class LossPlans {
 public:
  explicit LossPlans(const Network& network) : network_(network) {}  // `network` outlives them

  const LossPlan& of(const LossAt& loss);
  std::size_t workspace(std::span<const LossAt> losses, std::int64_t samples);  // for any of these

 private:
  const Network& network_;
  std::map<std::pair<std::shared_ptr<const Loss>, LayerPort>, LossPlan> plans_;
};

// LossTensors::target in memory without gaps: (samples, pixels, channels) float32. `classes`: one per place.
TensorView target_view(const float* data, std::int64_t pixels, std::int64_t channels, bool classes = false);

}  // namespace millrace
