// Creates a run's communicator: refuses unsuitable devices, and sets up lanes and processes.
#include <algorithm>

#include "communicator.h"
#include "cuda_lane.h"
#include "millrace/error.h"
#include "peers.h"

namespace millrace::cuda {
namespace {

// A single replica already has the sum.
class NothingToAdd final : public Communicator {
 public:
  void all_reduce(std::span<const Ref<GradientBucket>>) override {}
};

std::unique_ptr<Communicator> make_within_process(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes,
                                                  NcclWire wire) {
  const NcclWorld world{.id = NcclGroup::make_id(api), .ranks = static_cast<int>(lanes.size())};
  return std::make_unique<NcclCommunicator>(api, std::move(lanes), world, NcclOptions{.wire = wire});
}

// For several processes. A loss reported by the group also ends the sums, since NCCL would wait for the lost process.
class AcrossProcesses final : public Communicator {
 public:
  AcrossProcesses(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes, const CommunicatorType::Setting& setting,
                  NcclWire wire)
      : watch_(*setting.group) {
    NcclOptions options{.wire = wire};
    options.end = std::chrono::seconds(2);  // a sum that another process has left never ends
    try {
      const NcclWorld world = nccl_world(api, setting, [this] { return watch_.lost(); });
      communicator_ = std::make_unique<NcclCommunicator>(api, std::move(lanes), world, options);
    } catch (...) {  // whatever the error, the other processes wait
      const Error error = current_error();
      setting.group->leave(&error);
      throw;
    }
  }
  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override { communicator_->all_reduce(buckets); }
  void check() override { communicator_->check(); }

 private:
  PeerWatch watch_;
  std::unique_ptr<NcclCommunicator> communicator_;  // destroyed before the watch
};

}  // namespace

std::unique_ptr<Communicator> join_processes(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes,
                                             const CommunicatorType::Setting& setting, NcclWire wire) {
  return std::make_unique<AcrossProcesses>(api, std::move(lanes), setting, wire);
}

std::unique_ptr<Communicator> make_nccl_communicator(const CommunicatorType::Setting& setting, NcclWire wire) {
  const std::span<Device* const> devices = setting.devices;
  if ((setting.group ? setting.replicas : devices.size()) < 2) return std::make_unique<NothingToAdd>();
  const char* const name = wire == NcclWire::fp32 ? "nccl" : "nccl_bf16";
  std::vector<int> seen;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    const DeviceInfo& info = devices[r]->info();
    if (info.backend != "cuda") {
      fail(ErrorKind::usage, "communicator \"{}\" adds up over devices of backend cuda; replica {} is on {}:{}", name, r,
           info.backend, info.index);
    }
    if (std::find(seen.begin(), seen.end(), info.index) != seen.end()) {
      fail(ErrorKind::usage,
           "communicator \"{}\" needs a device for each replica, and cuda:{} has two; write communicator = \"local\" in the "
           "table "
           "of allreduce, or name each device once",
           name, info.index);
    }
    seen.push_back(info.index);
  }
  const NcclApi api = load_nccl();
  std::vector<std::unique_ptr<NcclLane>> lanes;
  for (Device* device : devices) lanes.push_back(std::make_unique<CudaLane>(*device));
  return setting.group ? join_processes(api, std::move(lanes), setting, wire) : make_within_process(api, std::move(lanes), wire);
}

}  // namespace millrace::cuda
