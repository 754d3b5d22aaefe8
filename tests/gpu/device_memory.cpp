#include "device_memory.h"

#include <dlfcn.h>

namespace millrace::gpu {
namespace {

// The driver calls needed here, declared so that the tests build without a toolkit. All return 0 on success.
using Init = int (*)(unsigned flags);
using DeviceGet = int (*)(int* device, int ordinal);
using Retain = int (*)(void** context, int device);
using SetCurrent = int (*)(void* context);
using MemoryInfo = int (*)(std::size_t* free, std::size_t* total);

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::optional<std::size_t> free_device_memory() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);  // never unloaded
  if (driver == nullptr) return std::nullopt;
  const auto init = find<Init>(driver, "cuInit");
  const auto device_get = find<DeviceGet>(driver, "cuDeviceGet");
  const auto retain = find<Retain>(driver, "cuDevicePrimaryCtxRetain");
  const auto set_current = find<SetCurrent>(driver, "cuCtxSetCurrent");
  const auto memory_info = find<MemoryInfo>(driver, "cuMemGetInfo_v2");
  if (init == nullptr || device_get == nullptr || retain == nullptr || set_current == nullptr || memory_info == nullptr) {
    return std::nullopt;
  }
  int device = 0;
  void* context = nullptr;
  std::size_t free = 0, total = 0;
  // The primary context is shared with the runtime library; never released, like the process's others.
  if (init(0) != 0 || device_get(&device, 0) != 0 || retain(&context, device) != 0 || set_current(context) != 0 ||
      memory_info(&free, &total) != 0) {
    return std::nullopt;
  }
  return free;
}

}  // namespace millrace::gpu
