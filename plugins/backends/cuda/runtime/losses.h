// A replica's losses: their inputs from a batch, their kernels, and the transfer of their sums to the host.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "layers/operation.h"
#include "millrace/backend/loss_plan.h"
#include "staging.h"
#include "sums_event.h"

namespace millrace::cuda {

// Not thread-safe. Only delivery waits for the device.
class Losses {
 public:
  // samples: maximum per pass. The network must outlive it.
  Losses(Machine& machine, const Network& network, std::span<const LossAt> losses, std::uint32_t samples);

  std::size_t device_bytes() const { return workspace_bytes_ + target_bytes_; }
  void start();

  // The maps at which a loss is measured. d_output: null if no gradient is wanted.
  struct At {
    Map output;
    const Map* d_output = nullptr;
    bool add = false;  // adds the gradient to the existing one
  };
  // Submits ingest of targets, the loss and the copy of its sums. table: of pixel values. The term's sums are available when the
  // event completes.
  Ref<Event> run(Queue& queue, const LossTerm& term, const At& at, const StagedBatch& batch, const float* table);
  void clear(const LossTerm& term);        // the sums for no samples
  void deliver() { returned_.deliver(); }  // REQUIRES: the queue's work is complete

 private:
  struct Planned {
    LossPlan plan;
    DeviceMemory constants;  // allocated on first use
  };
  Planned& planned(const LossAt& loss);
  const float* constants(Queue& queue, Planned& planned);
  void reserve(Queue& queue, DeviceMemory& memory, std::size_t bytes, const char* what);
  // The target's memory, after it has been made. Throws Error(usage) if it was not staged.
  TensorView target(Queue& queue, const Loss& loss, std::int64_t channels, const StagedBatch& batch, const float* table);
  TensorView target_images(Queue& queue, const Loss& loss, const StagedBatch& batch, const float* table);

  Machine& machine_;
  const Network& network_;
  std::map<std::pair<std::shared_ptr<const Loss>, LayerPort>, Planned> plans_;
  std::size_t workspace_bytes_ = 0, target_bytes_ = 0;
  DeviceMemory workspace_, targets_;
  SumsReturn returned_;
};

}  // namespace millrace::cuda
