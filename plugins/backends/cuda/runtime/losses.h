// The losses of a replica: what they read of a batch, their kernels, and their sums on the way to the host.
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

// One thread at a time. Nothing but delivery waits for the device.
class Losses {
 public:
  // samples: the most of a pass. The network outlives it.
  Losses(Machine& machine, const Network& network, std::span<const LossAt> losses, std::uint32_t samples);

  std::size_t device_bytes() const { return workspace_bytes_ + target_bytes_; }
  void start();

  // The maps of what a loss is measured at. d_output: null where no gradient is wanted.
  struct At {
    Map output;
    const Map* d_output = nullptr;
    bool add = false;  // the gradient, to the one that is there
  };
  // Submits what ingest does for targets, the loss and the copy of its sums. table: of pixel values. The term's sums are there
  // when the event is complete.
  Ref<Event> run(Queue& queue, const LossTerm& term, const At& at, const StagedBatch& batch, const float* table);
  void clear(const LossTerm& term);        // the sums, of no samples
  void deliver() { returned_.deliver(); }  // REQUIRES: the queue's work is done

 private:
  struct Planned {
    LossPlan plan;
    DeviceMemory constants;  // there once they are used
  };
  Planned& planned(const LossAt& loss);
  const float* constants(Queue& queue, Planned& planned);
  void reserve(Queue& queue, DeviceMemory& memory, std::size_t bytes, const char* what);
  // Where the target lies, after it has been made. Throws Error(usage) when it was not staged.
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
