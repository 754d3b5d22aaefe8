// Sums over the replicas of a run. The framework knows no way to communicate; `allreduce` asks for one by name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/backend.h"
#include "millrace/step.h"

namespace millrace {

// Holds one stream of its own for each local replica. One thread at a time submits to it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Sums one bucket over all replicas, in place. Every replica ends with the same bits; "local" adds in replica order, a library
  // for devices in an order of its own. `buckets`: the same bucket of every local replica, in replica order. Waits (on its
  // streams) for each bucket's `ready` and replaces it by the event after which the sum is there.
  virtual void all_reduce(std::span<const Ref<GradientBucket>> buckets) = 0;

  // Throws Error(device) when something has failed after it was submitted. What has not failed when a sum's event is complete
  // will not fail for this sum any more. Thread-safe.
  virtual void check() {}
};

struct CommunicatorType {
  std::string name;  // "local"
  std::string text;
  std::string backend;  // whose devices it is made for; empty: it needs no more than Stream
  std::function<std::unique_ptr<Communicator>(std::span<Device* const> devices)> create;  // one device per local replica
};

}  // namespace millrace
