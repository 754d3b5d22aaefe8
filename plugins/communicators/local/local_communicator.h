#pragma once

#include <memory>
#include <vector>

#include "millrace/communicator.h"

namespace millrace {

// Sums over replicas of this process whose memory every device can read: CPU replicas, and devices with peer access.
//
// Replica 0's stream waits until every replica has filled the bucket, adds them up in replica order into replica 0's memory;
// the others' streams then copy the sum to their own. So all replicas end with the same bits.
//
// When may a bucket be overwritten by the next backward? That backward is submitted after all updates of this step and runs after
// its own replica's update, which waits for `ready`. A replica r > 0 is read by the sum before its copy starts, and `ready` is
// recorded after the copy. Replica 0 is read by every copy: therefore its stream waits for all of them before its `ready` is
// recorded. No replica can get at memory that another one still reads.
class LocalCommunicator : public Communicator {
 public:
  explicit LocalCommunicator(std::span<Device* const> devices);
  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override;

 private:
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace millrace
