#include "backend.h"

#include <algorithm>
#include <array>

#include "replica.h"

namespace millrace::cuda {
namespace {

// Sums of more arrays than one launch adds go on from what the launch before left.
class QueueStream final : public Stream {
 public:
  QueueStream(std::shared_ptr<Machine> machine, const std::string& name)
      : machine_(std::move(machine)), queue_(machine_->make_queue(name)) {}

  void wait(const Ref<Event>& event) override { queue_->wait(event); }
  Ref<Event> record() override { return queue_->mark(); }
  void copy(float* destination, const float* source, std::size_t elements) override {
    queue_->copy(destination, source, elements * sizeof(float));
  }
  void sum(float* destination, std::span<const float* const> sources, std::size_t elements) override {
    if (elements == 0) return;
    if (sources.empty()) return queue_->zero(destination, elements * sizeof(float));
    // The first launch must not overwrite what a later one reads.
    const std::size_t first = std::min<std::size_t>(sources.size(), SumArrays::kMost);
    const std::span<const float* const> later = sources.subspan(first);
    const bool aside = std::find(later.begin(), later.end(), destination) != later.end();
    float* total = aside ? scratch(elements) : destination;
    add(total, nullptr, sources.first(first), elements);
    for (std::size_t begin = first; begin < sources.size(); begin += SumArrays::kMost - 1) {
      const std::size_t count = std::min<std::size_t>(sources.size() - begin, SumArrays::kMost - 1);
      add(total, total, sources.subspan(begin, count), elements);
    }
    if (aside) copy(destination, total, elements);
  }

 private:
  // start (null: none) comes first.
  void add(float* destination, const float* start, std::span<const float* const> sources, std::size_t elements) {
    SumArrays sum;
    if (start != nullptr) sum.sources[sum.count++] = start;
    for (const float* source : sources) {
      sum.sources[sum.count] = within_reach(source, elements, static_cast<std::size_t>(sum.count));
      ++sum.count;
    }
    sum.destination = destination;
    sum.elements = static_cast<std::int64_t>(elements);
    queue_->run(sum);
  }
  // What lies on a device without peer access is copied, which the driver does through the host.
  const float* within_reach(const float* source, std::size_t elements, std::size_t place) {
    if (machine_->reaches(source)) return source;
    float* copied = grown(staged_[place], elements, "gradients of a device without peer access");
    queue_->copy(copied, source, elements * sizeof(float));
    return copied;
  }
  float* scratch(std::size_t elements) { return grown(scratch_, elements, "sum of more than eight replicas"); }
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
  std::array<DeviceMemory, SumArrays::kMost> staged_;
  std::unique_ptr<Queue> queue_;  // last: its work is done before anything that it uses goes
};

}  // namespace

std::unique_ptr<Stream> CudaDevice::make_stream(const std::string& name) { return std::make_unique<QueueStream>(machine_, name); }

std::shared_ptr<std::uint8_t[]> CudaDevice::host_buffer(std::size_t bytes) {
  std::byte* memory = machine_->allocate_host(std::max<std::size_t>(bytes, 1));
  return {reinterpret_cast<std::uint8_t*>(memory),
          [machine = machine_](std::uint8_t* data) { machine->release_host(reinterpret_cast<std::byte*>(data)); }};
}

std::unique_ptr<Replica> CudaDevice::compile(const Network& network, const CompileOptions& options) {
  machine_->choose_plans(PlanChoice::of(options));
  return make_replica(machine_, network, options);
}

}  // namespace millrace::cuda
