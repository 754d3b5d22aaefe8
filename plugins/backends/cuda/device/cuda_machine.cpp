#include "cuda_machine.h"

#include <algorithm>
#include <cstring>

#include "errors.h"

namespace millrace::cuda {

CudaMachine::CudaMachine(std::shared_ptr<Gpu> gpu)
    : gpu_(std::move(gpu)), own_(std::make_unique<CudaStream>(gpu_->index(), "memory")) {}

CudaMachine::~CudaMachine() {
  planners_.clear();
  guest_.reset();
  own_.reset();
  gpu_->trim();  // frees unused memory too
}

// ---- Memory ----

std::byte* CudaMachine::allocate(std::size_t bytes, const std::string& what) {
  std::byte* memory = gpu_->take(bytes, what, own_->native());
  if (memory == nullptr) {
    fail(ErrorKind::device, "{} (cuda:{}): {}", info().name, info().index,
         gpu_->table().out_of_memory(bytes, what, free_memory(), info().memory));
  }
  try {
    check(cudaMemsetAsync(memory, 0, bytes, own_->native()), "cudaMemsetAsync");
    own_->finish();  // any queue may use it from now on
  } catch (...) {
    release(memory);
    throw;
  }
  return memory;
}

// cudaFreeAsync orders only its own stream, so this waits for the others; and memory counts as used until the host sees the
// stream reach that point. Errors belong to earlier work; finish() reports them.
void CudaMachine::release(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  try {
    for (const std::shared_ptr<CudaStream>& stream : streams()) stream->finish();
  } catch (...) {
  }
  gpu_->give(memory, own_->native());
  try {
    own_->finish();
  } catch (...) {
  }
}

std::byte* CudaMachine::allocate_host(std::size_t bytes) {
  use_device(info().index);
  void* memory = nullptr;  // portable: pinned for every device, since several read a batch
  const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  check(status, fmt::format("pinning {} bytes of host memory (cudaHostAlloc)", bytes));
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

// REQUIRES: no copy uses it any more.
void CudaMachine::release_host(std::byte* memory) noexcept {
  cudaSetDevice(info().index);
  cudaFreeHost(memory);
}

// ---- Queues ----

std::unique_ptr<Queue> CudaMachine::make_queue(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return std::make_unique<CudaQueue>(make_stream(name), gpu_->multiprocessors(),
                                     [this](const void* memory) { return reaches(memory); });
}

std::shared_ptr<CudaStream> CudaMachine::make_stream(const std::string& name) {
  std::erase_if(streams_, [](const std::weak_ptr<CudaStream>& known) { return known.expired(); });
  auto stream = std::make_shared<CudaStream>(info().index, name);
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
  use_device(info().index);
  float milliseconds = 0;  // resolution about half a microsecond
  const auto event = [](const Event& mark) { return static_cast<const CudaMark&>(mark).native(); };
  check(cudaEventElapsedTime(&milliseconds, event(first), event(second)), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1000;
}

void CudaMachine::finish() {
  for (const std::shared_ptr<CudaStream>& stream : streams()) {
    try {
      stream->finish();
    } catch (Error& error) {
      error.in(fmt::format("{} (cuda:{}), queue '{}'", info().name, info().index, stream->name()));
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
