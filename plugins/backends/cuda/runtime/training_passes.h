// Submits forward and backward of training steps.
//
// If recordings work on the device (shortcuts.h), the passes of an executable are recorded once, then launched: forward, and
// backward with a separate mark for each bucket. Ingest, loss and update, whose arguments change from step to step, are not
// recorded. A pass that cannot be recorded is submitted kernel by kernel, after one warning.
//
// Threading: one thread at a time. Nothing here waits for the device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "executable.h"

namespace millrace::cuda {

class TrainingPasses {
 public:
  using BucketFilled = std::function<void(int bucket, Ref<Mark> filled)>;

  // `bucket_nodes`: see CompiledNetwork. All arguments must outlive this object.
  TrainingPasses(Machine& machine, Queue& queue, const std::vector<int>& bucket_nodes, bool records)
      : machine_(machine), queue_(queue), bucket_nodes_(bucket_nodes), records_(records) {}

  // Records both passes of an executable, whose kernels a rehearsal has loaded. `buckets`: as in backward().
  void record(Executable& network, int buckets);

  void forward(Executable& network);
  // Calls `filled` for each of the first `buckets` buckets, in order, with the mark of the work that fills it.
  void backward(Executable& network, int buckets, const BucketFilled& filled);

 private:
  bool wants_recording(const Executable& network) const;
  // The work that `pass` submits; null, with a warning, if it cannot be recorded: then recording is disabled.
  std::unique_ptr<Recording> recording_of(const std::function<void()>& pass);
  void record_forward(Executable& network);
  void record_backward(Executable& network, int buckets);
  // Submits the gradients, and calls `filled` for each bucket once its last work is submitted.
  void submit_backward(Executable& network, int buckets, const std::function<void(int bucket)>& filled);

  Machine& machine_;
  Queue& queue_;
  const std::vector<int>& bucket_nodes_;
  bool records_;
};

}  // namespace millrace::cuda
