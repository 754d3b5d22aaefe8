#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backend/device_clock.h"
#include "millrace/batch.h"
#include "millrace/communicator.h"
#include "millrace/stage.h"

namespace millrace {

// Adds up gradients over the replicas of all processes.
//
// Ports: "in" takes each replica's GradientBuckets, "out" sends them on when their sums are submitted. A bucket waits here until
// the same bucket of every replica has come; the sum is in replica order whatever the order of arrival. With one replica in
// all, buckets pass through untouched.
//
// `communicator`: who adds up. "auto" takes the one made for the devices' backend where there is one, else "local".
class Allreduce : public Stage {
 public:
  struct Params {
    std::string communicator = "auto";
  };
  static void describe(StageDescription<Params>& d);
  Allreduce(const Params& params, const StepContext& context);  // throws Error(usage) for a communicator nobody registered

  void open() override;
  void process(int port, Packet packet, Output& output) override;
  DeviceWork device_work() const override { return clock_.work(); }  // from the last replica's gradients to their sum
  void stop() noexcept override { open_.clear(); }                   // of a run that ended in the middle of a step
  std::string save() const override;  // throws where a sum has failed: no checkpoint is to hold what came of it

 private:
  struct Joint {
    std::vector<Ref<GradientBucket>> buckets;  // by replica
    int missing = 0;
  };

  void check_when(const Ref<Event>& sum, Output& output);

  const StepContext context_;
  const CommunicatorType* type_ = nullptr;
  std::unique_ptr<Communicator> communicator_;  // null with one replica
  DeviceClock clock_;
  std::map<std::pair<std::uint64_t, int>, Joint> open_;  // by (step, bucket)
};

}  // namespace millrace
