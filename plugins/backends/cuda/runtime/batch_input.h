// How a share of a batch becomes a network's input: its bytes are brought to the device (staging.h), and ingest applies the
// augmentation records, normalises and lays out.
#pragma once

#include <memory>

#include "layers/operation.h"
#include "staging.h"

namespace millrace::cuda {

// One thread at a time. Nothing here waits for the device but the constructor and drain().
class BatchInput {
 public:
  // `staging`: of the same machine. Allocates the table of pixel values, and fills it by way of `compute`.
  BatchInput(Machine& machine, const Network& network, std::unique_ptr<Staging> staging, Queue& compute);

  // Submits the copy, and makes `compute` wait for it.
  void load(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count);
  // Submits ingest of what was loaded last, as this view shows it.
  void ingest(const Map& to, const View& view);
  // All readers of what was loaded last have been submitted.
  void release() { staging_->release(compute_); }

  const StagedBatch& staged() const { return staged_; }                  // what was loaded last
  const float* pixel_table() const { return pixel_table_.as<float>(); }  // device memory, (channels, 256): values of bytes
  void drain() { staging_->finish(); }

 private:
  Queue& compute_;
  const std::unique_ptr<Staging> staging_;
  DeviceMemory pixel_table_;
  StagedBatch staged_;
};

}  // namespace millrace::cuda
