#include "backend.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/elements.h"

namespace millrace::cuda {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;  // elements

// Sums of more arrays than one launch supports continue from the previous launch's result. If copies are needed, sums are
// computed piece by piece, so that the copies take kPiece floats each for arrays of any size: 9 MiB in all.
class QueueStream final : public Stream {
 public:
  QueueStream(std::shared_ptr<Machine> machine, const std::string& name)
      : machine_(std::move(machine)), queue_(machine_->make_queue(name)) {}

  void wait(const Ref<Event>& event) override { queue_->wait(event); }
  Ref<Event> record() override { return queue_->mark(); }
  void copy(float* destination, const float* source, std::size_t elements) override {
    queue_->copy(destination, source, elements * sizeof(float));
  }
  void run(const Kernel& kernel, const void* element) override { queue_->run(kernel, element); }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override { queue_->copy_out(host, device, bytes); }
  void sum(float* destination, std::span<const float* const> sources, std::size_t elements) override {
    if (elements == 0) return;
    if (sources.empty()) return queue_->zero(destination, elements * sizeof(float));
    std::vector<Source> all;
    for (const float* source : sources) all.push_back({source, machine_->reaches(source)});
    // The first launch must not overwrite a later one's input.
    const auto later = sources.subspan(std::min(sources.size(), kMax));
    const bool aside = std::find(later.begin(), later.end(), destination) != later.end();
    const bool far = std::any_of(all.begin(), all.end(), [](const Source& source) { return !source.in_reach; });
    const std::size_t piece = aside || far ? std::min(elements, kPiece) : elements;
    for (std::size_t begin = 0; begin < elements; begin += piece) {
      const std::size_t count = std::min(piece, elements - begin);
      float* const total = aside ? grown(scratch_, count, "sum of more than eight replicas") : destination + begin;
      sum_piece(total, all, begin, count);
      if (aside) copy(destination + begin, total, count);
    }
  }

 private:
  static constexpr std::size_t kMax = SumArrays::kMax;
  struct Source {
    const float* data = nullptr;
    bool in_reach = true;  // for kernels; data on a device without peer access are copied, which the driver does through the host
  };

  void sum_piece(float* total, std::span<const Source> sources, std::size_t begin, std::size_t count) {
    const std::size_t first = std::min(sources.size(), kMax);
    add(total, nullptr, sources.first(first), begin, count);
    for (std::size_t next = first; next < sources.size(); next += kMax - 1) {
      add(total, total, sources.subspan(next, std::min(sources.size() - next, kMax - 1)), begin, count);
    }
  }
  // start (null: none) comes first.
  void add(float* total, const float* start, std::span<const Source> sources, std::size_t begin, std::size_t count) {
    SumArrays sum;
    if (start != nullptr) sum.sources[sum.count++] = start;
    for (const Source& source : sources) {
      const float* data = source.data + begin;
      if (!source.in_reach) {
        float* copied = grown(copies_[static_cast<std::size_t>(sum.count)], count, "gradients of devices without peer access");
        copy(copied, data, count);
        data = copied;
      }
      sum.sources[sum.count++] = data;
    }
    sum.destination = total;
    sum.elements = static_cast<std::int64_t>(count);
    queue_->run(sum);
  }
  float* grown(DeviceMemory& memory, std::size_t elements, const char* what) {
    const std::size_t bytes = elements * sizeof(float);
    if (memory.bytes() < bytes) {
      queue_->mark()->wait();  // earlier sums still use the smaller one
      memory = DeviceMemory();
      memory = DeviceMemory(*machine_, bytes, what);
    }
    return memory.as<float>();
  }

  std::shared_ptr<Machine> machine_;
  DeviceMemory scratch_;
  std::array<DeviceMemory, kMax> copies_;
  std::unique_ptr<Queue> queue_;  // last: its work must end before the members it uses are destroyed
};

}  // namespace

std::unique_ptr<Stream> CudaDevice::make_stream(const std::string& name) { return std::make_unique<QueueStream>(machine_, name); }

std::shared_ptr<std::uint8_t[]> CudaDevice::host_buffer(std::size_t bytes) {
  std::byte* memory = machine_->allocate_host(std::max<std::size_t>(bytes, 1));
  return {reinterpret_cast<std::uint8_t*>(memory),
          [machine = machine_](std::uint8_t* data) { machine->release_host(reinterpret_cast<std::byte*>(data)); }};
}

std::shared_ptr<std::byte> CudaDevice::memory(std::size_t bytes, const std::string& what) {
  return {machine_->allocate(std::max<std::size_t>(bytes, 1), what),
          [machine = machine_](std::byte* data) { machine->release(data); }};
}

std::unique_ptr<Replica> CudaDevice::compile(const Network& network, const CompileOptions& options) {
  return make_replica(machine_, network, options);
}

}  // namespace millrace::cuda
