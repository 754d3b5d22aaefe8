#include "gpu.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "errors.h"

namespace millrace::cuda {

namespace {

// Without the libraries' paths, such as "9.19.0 (/usr/lib/libcudnn.so.9)": choices do not depend on them.
std::string versions_of(const DeviceInfo& info) {
  std::string text;
  for (const auto& [library, version] : info.versions) {
    text += fmt::format("{} {}\n", library, std::string_view(version).substr(0, version.find(" (")));
  }
  return text;
}

}  // namespace

std::shared_ptr<EngineChoices> ChoicesByModel::of(const DeviceInfo& info) {
  const std::string versions = versions_of(info);
  std::shared_ptr<EngineChoices>& known = known_[fmt::format("{}\n{}", info.name, versions)];
  if (!known) known = std::make_shared<EngineChoices>(engine_choices_file(info.name, versions));
  return known;
}

Gpu::Gpu(DeviceInfo info, std::shared_ptr<EngineChoices> choices) : info_(std::move(info)), choices_(std::move(choices)) {
  use_device(index());
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, index()), "cudaDeviceGetAttribute");
  make_pool();
}

Gpu::~Gpu() {
  cudaSetDevice(index());
  libraries_.reset();
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

void Gpu::make_pool() {
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, index()), "cudaDeviceGetAttribute");
  if (supported == 0) return;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = index();
  check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");  // keeps nothing beyond the next wait
}

// ---- Memory ----

std::byte* Gpu::take(std::size_t bytes, const std::string& what, cudaStream_t stream) {
  use_device(index());
  void* memory = nullptr;
  const auto attempt = [&] {
    return pool_ == nullptr ? cudaMalloc(&memory, bytes) : cudaMallocFromPoolAsync(&memory, bytes, pool_, stream);
  };
  cudaError_t status = attempt();
  if (status == cudaErrorMemoryAllocation && pool_ != nullptr) {
    cudaGetLastError();
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
    status = attempt();
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, fmt::format("allocating '{}'", what));
  table_.add(memory, bytes, what);
  return static_cast<std::byte*>(memory);
}

void Gpu::give(std::byte* memory, cudaStream_t stream) noexcept {
  cudaSetDevice(index());
  table_.remove(memory);
  if (pool_ == nullptr) {
    cudaFree(memory);
  } else {
    cudaFreeAsync(memory, stream);
  }
}

void Gpu::trim() noexcept {
  cudaSetDevice(index());
  if (pool_ != nullptr) cudaMemPoolTrimTo(pool_, 0);
}

std::size_t Gpu::free_memory() {
  use_device(index());
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (pool_ == nullptr) return free;
  std::uint64_t reserved = 0, used = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved), "cudaMemPoolGetAttribute");
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used), "cudaMemPoolGetAttribute");
  return free + static_cast<std::size_t>(reserved - std::min(used, reserved));
}

// ---- Other devices ----

// Other devices cannot access a pool's memory unless the pool allows it; cudaDeviceEnablePeerAccess does not cover it.
bool Gpu::admit(int other_device) {
  int reachable = 0;
  use_device(index());
  check(cudaDeviceCanAccessPeer(&reachable, other_device, index()), "cudaDeviceCanAccessPeer");
  if (reachable == 0 || pool_ == nullptr) return false;
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = other_device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  const cudaError_t status = cudaMemPoolSetAccess(pool_, &access, 1);
  if (status == cudaErrorNotSupported || status == cudaErrorInvalidDevice) {  // the other device does not support pools
    cudaGetLastError();
    return false;
  }
  check(status, "cudaMemPoolSetAccess");
  return true;
}

void Gpu::admitted_to(int other_device) {
  const std::lock_guard lock(mutex_);
  reached_.insert(other_device);
}

bool Gpu::reaches(const void* memory) {
  use_device(index());
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice || attributes.device == index()) return true;
  const std::lock_guard lock(mutex_);
  return reached_.contains(attributes.device);
}

}  // namespace millrace::cuda
