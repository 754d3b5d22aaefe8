// A replica's losses, and their inputs from a batch.
#pragma once

#include <span>
#include <vector>

#include "kernels/ingest.h"
#include "kernels/map.h"
#include "memory_region.h"
#include "millrace/backend/loss_plan.h"
#include "millrace/util/step_result.h"

namespace millrace::cpu {

// The inputs of losses, for a share of a batch. Threading: the replica's thread.
class LossInputs {
 public:
  void take(const Batch& batch, std::uint32_t begin, std::uint32_t count, const PixelTable& table);
  void append_to(LossTensors& tensors) const;
  // Size for a share with the largest target of these losses.
  static std::size_t bytes(const Network& network, std::span<const LossAt> losses, std::uint32_t samples);

 private:
  void take_target_images(const Batch& batch, std::uint32_t begin, std::uint32_t count, const PixelTable& table);

  std::vector<float> weights_, labels_, second_labels_, shares_;
  std::vector<float> targets_;  // (count, channels) or (count, H, W, channels)
  std::int64_t pixels_ = 0, channels_ = 0;
  bool classes_ = false;  // one class per pixel
};

// Threading: the replica's thread.
class Losses {
 public:
  explicit Losses(const Network& network) : plans_(network) {}  // `network` must outlive it

  // Allocates, so that run() takes no memory for these losses over at most this many samples.
  void plan(std::span<const LossAt> losses, std::int64_t samples) { bytes_ = plans_.workspace(losses, samples); }
  std::size_t bytes() const { return bytes_; }
  void start() { workspace_ = MemoryRegion(bytes_); }

  // The maps at which a loss is measured. d_output: null if no gradient is wanted. Without samples: sums of 0.
  struct At {
    Map output;
    const Map* d_output = nullptr;
    bool add = false;  // adds the gradient to the existing one
  };
  StepSums run(const LossAt& loss, const At& at, const LossInputs& inputs, std::int64_t samples, double divisor);

 private:
  LossPlans plans_;
  std::size_t bytes_ = 0;
  MemoryRegion workspace_;
};

}  // namespace millrace::cpu
