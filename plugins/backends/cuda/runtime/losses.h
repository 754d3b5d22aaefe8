// A replica's losses: their inputs from a batch, their kernels, and the transfer of their sums to the host.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "layers/operation.h"
#include "machine.h"
#include "millrace/backend/loss_plan.h"
#include "staging.h"

namespace millrace::cuda {

// Complete when the device has finished or failed. The first thread that observes this writes the sums, after those of earlier
// events; if the device has failed nothing is written, and wait() throws.
class SumsEvent : public Event {
 public:
  SumsEvent(Machine& machine, Ref<Mark> copied, std::shared_ptr<HostMemory> from, std::size_t count, StepSums& to,
            Ref<SumsEvent> before)
      : machine_(machine),
        copied_(std::move(copied)),
        from_(std::move(from)),
        count_(count),
        to_(&to),
        before_(std::move(before)) {}

  bool complete() const override;
  void wait() const override;
  void then(Callback done) override;

 private:
  void deliver() const;

  Machine& machine_;
  const Ref<Mark> copied_;
  mutable std::shared_ptr<HostMemory> from_;  // released on delivery
  const std::size_t count_;
  StepSums* const to_;
  mutable Ref<SumsEvent> before_;  // null: delivered, or none
  mutable std::once_flag once_;
};

// Pinned places for sums, reused after delivery, and the pending events.
class SumsReturn {
 public:
  explicit SumsReturn(Machine& machine) : machine_(machine) {}

  // Submits the copy of `device` to the host; the returned event completes when `sums` is valid.
  Ref<Event> submit(Queue& queue, const double* device, std::size_t count, StepSums& sums);
  void deliver();  // REQUIRES: the queue's work is complete

 private:
  std::shared_ptr<HostMemory> free_place(std::size_t bytes);

  Machine& machine_;
  std::vector<std::shared_ptr<HostMemory>> places_;  // free if no event holds it
  std::vector<Ref<SumsEvent>> pending_;
};

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
  const float* constants(Queue& queue, const LossPlan& plan);
  void reserve(Queue& queue, DeviceMemory& memory, std::size_t bytes, const char* what);
  // The target's memory, after it has been made. Throws Error(usage) if it was not staged.
  TensorView target(Queue& queue, const Loss& loss, std::int64_t channels, const StagedBatch& batch, const float* table);
  TensorView target_images(Queue& queue, const Loss& loss, const StagedBatch& batch, const float* table);

  Machine& machine_;
  LossPlans plans_;
  std::map<const LossPlan*, DeviceMemory> constants_;  // made when first used
  std::size_t workspace_bytes_ = 0, target_bytes_ = 0;
  DeviceMemory workspace_, targets_;
  SumsReturn returned_;
};

}  // namespace millrace::cuda
