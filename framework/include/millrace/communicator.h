// Sums over the replicas of a run. Communicators are plugins; `allreduce` asks for one by name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/backend.h"
#include "millrace/step.h"

namespace millrace {

// Has a stream for each local replica. One thread at a time submits to it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Sums one bucket over all replicas, in place. Every replica ends with the same bits; "local" adds in replica order, a device's
  // library in its own order. `buckets`: the same bucket of every local replica, in replica order. Waits (on its
  // streams) for each bucket's `ready` and replaces it by the event after which the sum is there.
  virtual void all_reduce(std::span<const Ref<GradientBucket>> buckets) = 0;

  // Throws Error(device) if a sum has failed after it was submitted. Once a sum's event is complete, that sum can no longer fail.
  // Thread-safe.
  virtual void check() {}
};

struct CommunicatorType {
  std::string name;  // "local"
  std::string text;
  std::string backend;  // whose devices it is made for; empty: it needs no more than Stream
  std::function<std::unique_ptr<Communicator>(std::span<Device* const> devices)> create;  // one device per local replica
};

}  // namespace millrace
