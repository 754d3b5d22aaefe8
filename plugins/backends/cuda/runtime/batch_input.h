// Turns a share of a batch into a network's input: copies its bytes to the device (staging.h), then ingest applies the
// augmentation records, normalises and lays out.
#pragma once

#include <memory>

#include "layers/operation.h"
#include "staging.h"

namespace millrace::cuda {

// Not thread-safe. Only the constructor and drain() wait for the device.
class BatchInput {
 public:
  // `staging`: for the same machine. Allocates the table of pixel values, and fills it through `compute`.
  BatchInput(Machine& machine, const Network& network, std::unique_ptr<Staging> staging, Queue& compute);

  // Submits the copy, and makes `compute` wait for it.
  void load(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count);
  // Submits ingest of the last loaded batch with this view.
  void ingest(const Map& to, const View& view);
  // Call once all readers of the last loaded batch are submitted.
  void release() { staging_->release(compute_); }

  const StagedBatch& staged() const { return staged_; }                  // the last loaded batch
  const float* pixel_table() const { return pixel_table_.as<float>(); }  // device memory, (channels, 256): values of bytes
  void drain() { staging_->finish(); }

 private:
  Queue& compute_;
  const std::unique_ptr<Staging> staging_;
  DeviceMemory pixel_table_;
  StagedBatch staged_;
};

}  // namespace millrace::cuda
