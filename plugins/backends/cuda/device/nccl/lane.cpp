// The communicator on CUDA's own streams and events.
#include <algorithm>
#include <utility>

#include "communicator.h"
#include "errors.h"
#include "kernels/plain.h"
#include "launch.h"
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
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, info.index), "cudaDeviceGetAttribute");
    marks_ = Marks::make(info.index);
  }
  ~CudaLane() override {
    cudaSetDevice(rank_.device);
    if (rounded_ != nullptr) cudaFreeAsync(rounded_, stream_);
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
  void* round(const float* from, std::size_t elements) override {
    use_device(rank_.device);
    make_room(elements);
    run(FloatToBf16{.from = from, .to = rounded_, .packs = packs_of(elements)});
    return rounded_;
  }
  void widen(float* to, std::size_t elements) override {
    use_device(rank_.device);
    run(Bf16ToFloat{.from = rounded_, .to = to, .packs = packs_of(elements)});
  }

 private:
  // Buckets are of whole packs (backend/parameter_plan.h).
  static std::int64_t packs_of(std::size_t elements) { return static_cast<std::int64_t>((elements + kPack - 1) / kPack); }
  // In the stream's order, since a device that is waited for here could wait for a sum that another one has yet to join.
  void make_room(std::size_t elements) {
    const std::size_t bytes = static_cast<std::size_t>(packs_of(elements)) * kPack * sizeof(Bf16);
    if (bytes <= room_) return;
    if (rounded_ != nullptr) check(cudaFreeAsync(std::exchange(rounded_, nullptr), stream_), "cudaFreeAsync");
    check(cudaMallocAsync(reinterpret_cast<void**>(&rounded_), bytes, stream_), "cudaMallocAsync");
    room_ = bytes;
  }
  template <class Element>
  void run(const Element& element) {
    check(launch(kernel_of<Element>, &element, stream_, multiprocessors_), "a conversion of gradients");
  }

  const NcclRank rank_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<Marks> marks_;
  int multiprocessors_ = 0;
  Bf16* rounded_ = nullptr;  // gradients of the present sum
  std::size_t room_ = 0;     // bytes there
};

// A single replica has the sum already.
class NothingToAdd final : public Communicator {
 public:
  void all_reduce(std::span<const Ref<GradientBucket>>) override {}
};

std::unique_ptr<Communicator> make_within_process(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes,
                                                  NcclWire wire) {
  const NcclWorld world{.id = NcclGroup::make_id(api), .ranks = static_cast<int>(lanes.size())};
  return std::make_unique<NcclCommunicator>(api, std::move(lanes), world, NcclOptions{.wire = wire});
}

// With the processes of a run. What the group knows of them ends the sums too, since NCCL would wait for a process that is gone.
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
  for (Device* device : devices) lanes.push_back(std::make_unique<CudaLane>(device->info()));
  return setting.group ? std::make_unique<AcrossProcesses>(api, std::move(lanes), setting, wire)
                       : make_within_process(api, std::move(lanes), wire);
}

}  // namespace millrace::cuda
