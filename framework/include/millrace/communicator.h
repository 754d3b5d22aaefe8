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

  // Sums one bucket over all replicas, in place, in replica order, so that every replica ends with the same bits.
  // `buckets`: the same bucket of every local replica, in replica order. Waits (on its streams) for each bucket's `ready` and
  // replaces it by the event after which the sum is there.
  virtual void all_reduce(std::span<const Ref<GradientBucket>> buckets) = 0;
};

struct CommunicatorType {
  std::string name;     // "local"
  std::string text;
  std::string backend;  // whose devices it is made for; empty: it needs no more than Stream
  std::function<std::unique_ptr<Communicator>(std::span<Device* const> devices)> create;  // one device per local replica
};

}  // namespace millrace
