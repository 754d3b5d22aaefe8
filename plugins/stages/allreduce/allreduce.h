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
// Ports: "in" takes each replica's GradientBuckets, "out" forwards them once their sums are submitted. A bucket waits here until
// the same bucket of every replica has arrived; sums are in replica order, whatever the order of arrival. With a single replica,
// buckets pass through untouched.
//
// `communicator`: "auto" uses the one made for the devices' backend, or "local" if there is none.
class Allreduce : public Stage {
 public:
  struct Params {
    std::string communicator = "auto";
  };
  static void describe(StageDescription<Params>& d);
  Allreduce(const Params& params, const StepContext& context);  // throws Error(usage) for an unknown communicator

  void open() override;
  void process(int port, Packet packet, Output& output) override;
  DeviceWork device_work() const override { return clock_.work(); }  // from the last replica's gradients to their sum
  void stop() noexcept override { open_.clear(); }                   // buckets of a step that was cut short
  std::string save() const override;  // throws if a sum failed, so that no checkpoint contains wrong weights

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
