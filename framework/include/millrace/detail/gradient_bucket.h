// Payloads of a training step for stages that work on gradients. Part of batch.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "millrace/detail/packet.h"

namespace millrace {

class Error;

// A point in a stream's work: complete when the work before it is done, or when the device has failed, so that nothing waits for
// ever. After a failure the results of that work must not be used: memory of the host holds whatever was there before.
// Thread-safe.
class Event : public Payload {
 public:
  virtual bool complete() const = 0;  // a failure counts
  virtual void wait() const = 0;      // blocks the host; not on a worker of the graph. Throws the failure
  // Calls `done` once, when complete: at once on this thread, or later on one of the backend's. It is short and must not throw.
  // `failure`: null when the work is done.
  using Callback = std::function<void(const Error* failure)>;
  virtual void then(Callback done) = 0;
};

// Circulates, one per graph: the next step's forward may be submitted when the last Ref to it is released. Held by the buckets of
// a step, and by the run while it validates or saves.
class StepToken : public Payload {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
};

// A contiguous slice of one replica's gradients: whole parameters, on the device.
class GradientBucket : public Payload {
 public:
  Ref<StepToken> token;
  std::uint64_t step = 0;
  int replica = 0;
  int bucket = 0;
  int buckets = 1;        // number of buckets in this step, counted from 0
  float* data = nullptr;  // device memory
  std::size_t elements = 0;
  Ref<Event> ready;              // signals that `data` holds the previous stage's result; each stage that writes replaces it
  const float* scale = nullptr;  // factor for the gradients, in device memory, valid once `ready` is complete. Null: 1. 0: the
                                 // step updates nothing
};

}  // namespace millrace
