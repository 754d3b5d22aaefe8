#include "cuda_machine.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "errors.h"

namespace millrace::cuda {

CudaMachine::CudaMachine(DeviceInfo info) : info_(std::move(info)) {
  use_device(info_.index);
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, info_.index), "cudaDeviceGetAttribute");
  own_ = std::make_unique<CudaStream>(info_.index, "memory");
  make_pool();
}

CudaMachine::~CudaMachine() {
  planners_.clear();
  guest_.reset();
  own_.reset();
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

void CudaMachine::make_pool() {
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, info_.index), "cudaDeviceGetAttribute");
  if (supported == 0) return;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = info_.index;
  check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");  // which keeps nothing that nobody uses
}

// Memory of a pool is not reached by other devices unless the pool says so; cudaDeviceEnablePeerAccess does not cover it.
bool CudaMachine::admit(int other_device) {
  int reachable = 0;
  use_device(info_.index);
  check(cudaDeviceCanAccessPeer(&reachable, other_device, info_.index), "cudaDeviceCanAccessPeer");
  if (reachable == 0 || pool_ == nullptr) return false;
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = other_device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  const cudaError_t status = cudaMemPoolSetAccess(pool_, &access, 1);
  if (status == cudaErrorNotSupported || status == cudaErrorInvalidDevice) {  // the other device knows no pools
    cudaGetLastError();
    return false;
  }
  check(status, "cudaMemPoolSetAccess");
  return true;
}

void CudaMachine::admitted_to(int other_device) {
  const std::lock_guard lock(mutex_);
  reached_.insert(other_device);
}

bool CudaMachine::reaches(const void* memory) {
  use_device(info_.index);
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice || attributes.device == info_.index) return true;
  const std::lock_guard lock(mutex_);
  return reached_.contains(attributes.device);
}

// ---- Memory ----

// Null when there is not enough, though everything that nobody uses has been given back to the driver.
std::byte* CudaMachine::take(std::size_t bytes, const std::string& what) {
  void* memory = nullptr;
  const auto attempt = [&] {
    return pool_ == nullptr ? cudaMalloc(&memory, bytes) : cudaMallocFromPoolAsync(&memory, bytes, pool_, own_->native());
  };
  cudaError_t status = attempt();
  if (status == cudaErrorMemoryAllocation && pool_ != nullptr) {
    cudaGetLastError();
    own_->finish();
    check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
    status = attempt();
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, fmt::format("allocating '{}'", what));
  return static_cast<std::byte*>(memory);
}

std::byte* CudaMachine::allocate(std::size_t bytes, const std::string& what) {
  use_device(info_.index);
  std::byte* memory = take(bytes, what);
  if (memory == nullptr) {
    fail(ErrorKind::device, "{} (cuda:{}): {}", info_.name, info_.index,
         table_.out_of_memory(bytes, what, free_memory(), info_.memory));
  }
  table_.add(memory, bytes, what);
  try {
    check(cudaMemsetAsync(memory, 0, bytes, own_->native()), "cudaMemsetAsync");
    own_->finish();  // any queue may use it from now on
  } catch (...) {
    release(memory);
    throw;
  }
  return memory;
}

// cudaFreeAsync knows only the order of its own stream, so the others' work is waited for; and memory counts as taken until the
// host has seen the stream come that far. Errors are those of earlier work, which finish() reports.
void CudaMachine::release(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  cudaSetDevice(info_.index);
  try {
    for (const std::shared_ptr<CudaStream>& stream : streams()) stream->finish();
  } catch (...) {
  }
  table_.remove(memory);
  if (pool_ == nullptr) {
    cudaFree(memory);
  } else {
    cudaFreeAsync(memory, own_->native());
    try {
      own_->finish();
    } catch (...) {
    }
  }
}

std::byte* CudaMachine::allocate_host(std::size_t bytes) {
  use_device(info_.index);
  void* memory = nullptr;  // portable: pinned for every device, since a batch is read by several
  const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  check(status, fmt::format("pinning {} bytes of host memory (cudaHostAlloc)", bytes));
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

// REQUIRES: no copy uses it any more.
void CudaMachine::release_host(std::byte* memory) noexcept {
  cudaSetDevice(info_.index);
  cudaFreeHost(memory);
}

std::size_t CudaMachine::free_memory() {
  use_device(info_.index);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (pool_ == nullptr) return free;
  std::uint64_t reserved = 0, used = 0;  // what the pool keeps for the next allocation is free too
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved), "cudaMemPoolGetAttribute");
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used), "cudaMemPoolGetAttribute");
  return free + static_cast<std::size_t>(reserved - std::min(used, reserved));
}

// ---- Queues ----

std::unique_ptr<Queue> CudaMachine::make_queue(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return std::make_unique<CudaQueue>(make_stream(name), multiprocessors_, [this](const void* memory) { return reaches(memory); });
}

std::shared_ptr<CudaStream> CudaMachine::make_stream(const std::string& name) {
  std::erase_if(streams_, [](const std::weak_ptr<CudaStream>& known) { return known.expired(); });
  auto stream = std::make_shared<CudaStream>(info_.index, name);
  streams_.push_back(stream);
  return stream;
}

std::vector<std::shared_ptr<CudaStream>> CudaMachine::streams() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CudaStream>> open;
  for (const std::weak_ptr<CudaStream>& known : streams_) {
    if (auto stream = known.lock()) open.push_back(std::move(stream));
  }
  return open;
}

double CudaMachine::seconds_between(const Event& first, const Event& second) {
  use_device(info_.index);
  float milliseconds = 0;  // to about half a microsecond
  const auto event = [](const Event& mark) { return static_cast<const CudaMark&>(mark).native(); };
  check(cudaEventElapsedTime(&milliseconds, event(first), event(second)), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1000;
}

void CudaMachine::finish() {
  for (const std::shared_ptr<CudaStream>& stream : streams()) {
    try {
      stream->finish();
    } catch (Error& error) {
      error.in(fmt::format("{} (cuda:{}), queue '{}'", info_.name, info_.index, stream->name()));
      throw;
    }
  }
}

CudaMachine::Guest::Guest(std::shared_ptr<CudaStream> of) : stream(std::move(of)), marks(Marks::make(stream->device())) {
  const int device = stream->device();
  handle.device = device;
  handle.stream = stream->native();
  handle.wait = [device](cudaStream_t other, const Ref<Event>& event) {
    use_device(device);
    wait_in(other, event);
  };
  handle.record = [device, from = marks.get()](cudaStream_t other) -> Ref<Event> {
    use_device(device);
    return from->record(other);
  };
}

CudaMachine::Guest::~Guest() {
  cudaSetDevice(stream->device());
  cudaStreamSynchronize(stream->native());
  marks->close();
}

void* CudaMachine::native(const std::string& api) {
  if (api != "cuda") return nullptr;
  const std::lock_guard lock(mutex_);
  if (!guest_) guest_ = std::make_unique<Guest>(make_stream("guests"));
  return &guest_->handle;
}

}  // namespace millrace::cuda
