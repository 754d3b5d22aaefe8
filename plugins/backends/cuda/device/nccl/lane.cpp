// The communicator on CUDA's own streams and events.
#include <algorithm>
#include <utility>

#include "communicator.h"
#include "errors.h"
#include "marks.h"
#include "millrace/error.h"
#include "peers.h"

namespace millrace::cuda {
namespace {

// The stream has the highest priority: a sum needs few of the multiprocessors, but the next step waits for it, and a device that
// is full with backward would give it room last.
class CudaLane final : public NcclLane {
 public:
  explicit CudaLane(const DeviceInfo& info) : rank_{info.index, fmt::format("cuda:{} ({})", info.index, info.name)} {
    use_device(info.index);
    int lowest = 0;
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
    marks_ = Marks::make(info.index);
  }
  ~CudaLane() override {
    cudaSetDevice(rank_.device);
    cudaStreamSynchronize(stream_);
    marks_->close();
    cudaStreamDestroy(stream_);
  }
  CudaLane(const CudaLane&) = delete;
  CudaLane& operator=(const CudaLane&) = delete;

  NcclRank rank() const override { return rank_; }
  cudaStream_t stream() const override { return stream_; }
  void wait(const Ref<Event>& event) override {
    use_device(rank_.device);
    wait_in(stream_, event);
  }
  Ref<Event> record() override {
    use_device(rank_.device);
    return marks_->record(stream_);
  }

 private:
  const NcclRank rank_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<Marks> marks_;
};

// A single replica has the sum already.
class NothingToAdd final : public Communicator {
 public:
  void all_reduce(std::span<const Ref<GradientBucket>>) override {}
};

std::unique_ptr<Communicator> make_within_process(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes) {
  const NcclWorld world{.id = NcclGroup::make_id(api), .ranks = static_cast<int>(lanes.size())};
  return std::make_unique<NcclCommunicator>(api, std::move(lanes), world, NcclOptions{});
}

// With the processes of a run. What the group knows of them ends the sums too, since NCCL would wait for a process that is gone.
class AcrossProcesses final : public Communicator {
 public:
  AcrossProcesses(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes, const CommunicatorType::Setting& setting)
      : watch_(*setting.group) {
    NcclOptions options;
    options.end = std::chrono::seconds(2);  // a sum that another process has left never ends
    try {
      const NcclWorld world = nccl_world(api, setting, [this] { return watch_.lost(); });
      communicator_ = std::make_unique<NcclCommunicator>(api, std::move(lanes), world, options);
    } catch (const Error& error) {
      setting.group->leave(&error);
      throw;
    }
  }
  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override { communicator_->all_reduce(buckets); }
  void check() override { communicator_->check(); }

 private:
  PeerWatch watch_;
  std::unique_ptr<NcclCommunicator> communicator_;  // gone before the watch
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const CommunicatorType::Setting& setting) {
  const std::span<Device* const> devices = setting.devices;
  if ((setting.group ? setting.replicas : devices.size()) < 2) return std::make_unique<NothingToAdd>();
  std::vector<int> seen;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    const DeviceInfo& info = devices[r]->info();
    if (info.backend != "cuda") {
      fail(ErrorKind::usage, "communicator \"nccl\" adds up over devices of backend cuda; replica {} is on {}:{}", r,
           info.backend, info.index);
    }
    if (std::find(seen.begin(), seen.end(), info.index) != seen.end()) {
      fail(ErrorKind::usage,
           "communicator \"nccl\" needs a device for each replica, and cuda:{} has two; write communicator = \"local\" in the "
           "table "
           "of allreduce, or name each device once",
           info.index);
    }
    seen.push_back(info.index);
  }
  const NcclApi api = load_nccl();
  std::vector<std::unique_ptr<NcclLane>> lanes;
  for (Device* device : devices) lanes.push_back(std::make_unique<CudaLane>(device->info()));
  return setting.group ? std::make_unique<AcrossProcesses>(api, std::move(lanes), setting)
                       : make_within_process(api, std::move(lanes));
}

}  // namespace millrace::cuda
