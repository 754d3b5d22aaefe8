#include "backend.h"

#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "device_info.h"
#include "kernels/kernels.h"
#include "kernels/run_kernel.h"
#include "map_spec.h"
#include "work_queue.h"

namespace millrace::cpu {
namespace {

std::shared_ptr<std::byte> zeroed(std::size_t bytes) {
  const std::size_t size = aligned(std::max<std::size_t>(bytes, 1));
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, size);
  return {memory, [](std::byte* data) { std::free(data); }};
}

std::shared_ptr<std::byte> copy_of(const void* element, std::size_t bytes) {
  std::shared_ptr<std::byte> copied = zeroed(bytes);
  std::memcpy(copied.get(), element, bytes);
  return copied;
}

// A host thread that works in order. Sums are small compared with a training step: one thread suffices.
class HostStream final : public Stream {
 public:
  explicit HostStream(const std::string& name) : queue_(name, [] { omp_set_num_threads(1); }) {}

  void wait(const Ref<Event>& event) override {
    if (event) queue_.submit([event] { event->wait(); });
  }
  Ref<Event> record() override { return queue_.submit({}); }
  void sum(float* destination, std::span<const float* const> sources, std::size_t elements) override {
    queue_.submit([destination, from = std::vector<const float*>(sources.begin(), sources.end()), elements] {
      kernels().sum(destination, from.data(), from.size(), elements);
    });
  }
  void copy(float* destination, const float* source, std::size_t elements) override {
    queue_.submit([destination, source, elements] { std::memcpy(destination, source, elements * sizeof(float)); });
  }
  void run(const Kernel& kernel, const void* element) override {
    queue_.submit([&kernel, copied = copy_of(element, kernel.bytes)] { run_kernel(kernel, copied.get()); });
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    queue_.submit([host, device, bytes] { std::memcpy(host, device, bytes); });
  }
  void call(std::function<void()> work) override { queue_.submit(std::move(work)); }

 private:
  WorkQueue queue_;
};

}  // namespace

CpuDevice::CpuDevice(DeviceInfo info, DeviceOptions options, std::shared_ptr<EngineChoices> choices)
    : info_(std::move(info)), options_(std::move(options)), choices_(std::move(choices)) {}

std::unique_ptr<Stream> CpuDevice::make_stream(const std::string& name) { return std::make_unique<HostStream>(name); }

std::shared_ptr<std::uint8_t[]> CpuDevice::host_buffer(std::size_t bytes) {
  std::shared_ptr<std::byte> memory = zeroed(bytes);
  return {memory, reinterpret_cast<std::uint8_t*>(memory.get())};
}

std::shared_ptr<std::byte> CpuDevice::memory(std::size_t bytes, const std::string&) { return zeroed(bytes); }

std::unique_ptr<Replica> CpuDevice::compile(const Network& network, const CompileOptions& options) {
  if (options.precision == Precision::bf16 && !info_.bf16) {
    fail(ErrorKind::usage,
         "precision = \"bf16\" needs AVX-512, and this processor ({}) has none; \"auto\" takes fp32 on it, also with weights of "
         "bf16 "
         "(--set run.precision=auto): results then differ in rounding",
         info_.name);
  }
  return make_replica(network, options, options_, PrimitiveChecks(choices_, options_.warn));
}

std::vector<DeviceInfo> CpuBackend::devices() {
  if (kernels_unavailable_reason() != nullptr) return {};
  return {describe_processor()};
}

std::string CpuBackend::unavailable_reason() {
  const char* reason = kernels_unavailable_reason();
  return reason == nullptr ? std::string() : std::string(reason);
}

std::unique_ptr<Device> CpuBackend::open(int index, const DeviceOptions& options) {
  if (index != 0) fail(ErrorKind::usage, "backend 'cpu' has one device, number 0, not {}; two replicas are 'cpu*2'", index);
  if (const std::string reason = unavailable_reason(); !reason.empty()) fail(ErrorKind::device, "backend 'cpu': {}", reason);
  if (!choices_) choices_ = std::make_shared<EngineChoices>(engine_choices_file(describe_processor().name, kernel_versions()));
  DeviceInfo info = describe_processor();
  info.versions.emplace_back("threads of a replica", std::to_string(threads_for(options.cores)));
  return std::make_unique<CpuDevice>(std::move(info), options, choices_);
}

}  // namespace millrace::cpu
