// The training step's payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/detail/packet.h"

namespace millrace {

// One per graph, circulating: the next step's forward may be submitted when the last Ref to it is gone. Held by the buckets of
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
  int buckets = 1;        // in this step; their numbers begin at 0
  float* data = nullptr;  // device memory of the replica
  std::size_t elements = 0;
  Ref<Event> ready;  // what must be complete before `data` holds this stage's result; replaced by each stage that writes
  const float* scale = nullptr;  // a factor of the gradients, in device memory, valid once `ready` is complete. Null means 1;
                                 // a factor of 0 means that the step updates nothing
};

// What a loss measured in one step on one replica: sums, so that replicas and steps can be added up.
class StepResult : public Payload {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  int replica = 0;
  int replicas = 1;
  std::uint64_t stream_hash = 0;     // of the global batch; replica 0's counts
  Ref<Event> ready;                  // the sums below are written by the device before this
  std::shared_ptr<const Loss> loss;  // what makes figures of the sums
  double samples = 0;                // with weight
  std::vector<StepSums> sums;        // of each piece of the share that was measured
  // Losses that are minimised beside it.
  struct Auxiliary {
    std::string name;            // "aux1.fc2"
    std::vector<StepSums> sums;  // as above
  };
  std::vector<Auxiliary> auxiliary;
};

}  // namespace millrace
