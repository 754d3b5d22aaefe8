#include "device_list.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "library.h"
#include "millrace/error.h"
#include "nvml.h"

namespace millrace::cuda {
namespace {

constexpr int kLeastDriver = 580;  // the first with CUDA 13

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."
std::string driver_version(const Nvml* nvml) {
  if (nvml != nullptr) {
    if (std::string version = nvml->driver_version(); !version.empty()) return version;
  }
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos) return word;
  }
  return {};
}

DriverState driver_state(const Nvml* nvml) {
  DriverState state;
  cudaRuntimeGetVersion(&state.runtime_cuda);
  try {
    const Library driver({"libcuda.so.1"});
    state.library = true;
  } catch (const Error&) {
    return state;
  }
  cudaDriverGetVersion(&state.driver_cuda);
  state.driver = driver_version(nvml);
  state.status = cudaGetDeviceCount(&state.count);
  cudaGetLastError();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    state.visible_is_set = true;
    state.visible = visible;
  }
  return state;
}

std::string gigabytes(std::size_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9); }

// The versions of the compute libraries, shown by `pipeline-inspect devices`.
struct LibraryVersions {
  std::string cudnn, cublaslt, nccl;
  std::string missing;  // the first required one that is missing
};

LibraryVersions library_versions() {
  LibraryVersions found;
  const auto look = [&](const char* name, bool needed, std::string& text, const auto& version) {
    try {
      const Library library({name});
      text = fmt::format("{} ({})", version(library), library.path());
    } catch (const Error& error) {
      text = "not found";
      if (needed && found.missing.empty()) found.missing = error.message();
    }
  };
  look("libcudnn.so.9", true, found.cudnn, [](const Library& library) {
    const std::size_t v = library.symbol<decltype(cudnnGetVersion)>("cudnnGetVersion")();
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  });
  look("libcublasLt.so.13", true, found.cublaslt, [](const Library& library) {
    const std::size_t v = library.symbol<decltype(cublasLtGetVersion)>("cublasLtGetVersion")();
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  });
  look("libnccl.so.2", false, found.nccl, [](const Library& library) {
    int v = 0;
    library.symbol<decltype(ncclGetVersion)>("ncclGetVersion")(&v);
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  });
  return found;
}

constexpr const char *kFreeMemory = "free memory", *kBus = "PCI bus";

std::string free_text(const Nvml* nvml, const std::string& uuid, std::size_t total) {
  const std::optional<std::size_t> free = nvml == nullptr ? std::nullopt : nvml->free_memory(uuid);
  return free ? fmt::format("{} of {}", gigabytes(*free), gigabytes(total)) : "unknown without NVML";
}

DeviceInfo describe(int index, const cudaDeviceProp& properties, const DriverState& state, const LibraryVersions& libraries,
                    const Nvml* nvml) {
  DeviceInfo info;
  info.backend = "cuda";
  info.index = index;
  info.name = properties.name;
  info.memory = properties.totalGlobalMem;
  info.cache = static_cast<std::size_t>(properties.l2CacheSize);
  const bool slice = nvml != nullptr && nvml->knows(uuid_text(properties.uuid, true));  // CUDA's properties do not say
  info.uuid = uuid_text(properties.uuid, slice);
  info.native_bf16 = properties.major * 10 + properties.minor >= kLeastCapability;
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), index) != cudaSuccess) bus[0] = '\0';
  std::string links = nvml == nullptr ? std::string() : nvml->links(bus);
  info.details = {
      {kFreeMemory, free_text(nvml, info.uuid, info.memory)},
      {"compute capability", fmt::format("{}.{}", properties.major, properties.minor)},
      {"multiprocessors", std::to_string(properties.multiProcessorCount)},
      {kBus, bus},
      {"UUID", info.uuid},
      {"links", links.empty() ? "PCIe" : links},
      {"driver",
       fmt::format("{}, CUDA {}", state.driver.empty() ? "unknown" : state.driver, cuda_version_text(state.driver_cuda))},
      {"CUDA runtime", cuda_version_text(state.runtime_cuda)},
      {"cuDNN", libraries.cudnn},
      {"cuBLASLt", libraries.cublaslt},
      {"NCCL", libraries.nccl == "not found" ? "not found; several devices at once need it" : libraries.nccl},
  };
  info.versions = {{"driver", state.driver},
                   {"CUDA runtime", cuda_version_text(state.runtime_cuda)},
                   {"cuDNN", libraries.cudnn},
                   {"cuBLASLt", libraries.cublaslt}};
  return info;
}

}  // namespace

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string uuid_text(const cudaUUID_t& uuid, bool slice) {
  std::string text = slice ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::string why_no_device(const DriverState& state) {
  if (!state.library || (state.status == cudaErrorInsufficientDriver && state.driver_cuda == 0)) {
    return fmt::format("no NVIDIA driver (libcuda.so.1 was not found); for an NVIDIA GPU, install driver {} or later",
                       kLeastDriver);
  }
  const bool older = state.driver_cuda > 0 && state.driver_cuda / 1000 < state.runtime_cuda / 1000;
  if (state.status == cudaErrorInsufficientDriver || older) {
    return fmt::format("driver {} (CUDA {}) is older than CUDA {} needs ({} or later)",
                       state.driver.empty() ? "of this machine" : state.driver, cuda_version_text(state.driver_cuda),
                       cuda_version_text(state.runtime_cuda), kLeastDriver);
  }
  if (state.status == cudaErrorNoDevice || (state.status == cudaSuccess && state.count == 0)) {
    return fmt::format("the NVIDIA driver {} reports no device{}", state.driver,
                       state.visible_is_set ? fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", state.visible) : "");
  }
  if (state.status != cudaSuccess) {
    return fmt::format("CUDA cannot be started: {} ({}; driver {})", cudaGetErrorString(state.status),
                       cudaGetErrorName(state.status), state.driver.empty() ? "unknown" : state.driver);
  }
  return {};
}

DeviceList::DeviceList() : nvml_(Nvml::open()) {
  const DriverState state = driver_state(nvml_.get());
  why_not_ = why_no_device(state);
  if (!why_not_.empty()) return;
  const LibraryVersions libraries = library_versions();
  if (!libraries.missing.empty()) {
    why_not_ = libraries.missing;
    return;
  }
  for (int index = 0; index < state.count; ++index) {
    cudaDeviceProp properties{};
    if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
      cudaGetLastError();
      why_not_ = fmt::format("cannot query device {}: {}", index, cudaGetErrorString(status));
    } else if (properties.major * 10 + properties.minor < kLeastCapability) {
      why_not_ = fmt::format("device {} ({}) has compute capability {}.{}; this program needs {}.{} or later", index,
                             properties.name, properties.major, properties.minor, kLeastCapability / 10, kLeastCapability % 10);
    } else {
      found_.push_back(describe(index, properties, state, libraries, nvml_.get()));
    }
  }
  if (!found_.empty()) why_not_.clear();
}

DeviceList::~DeviceList() = default;

std::vector<DeviceInfo> DeviceList::now() const {
  std::vector<DeviceInfo> devices = found_;
  for (DeviceInfo& device : devices) {
    const auto detail = [&](const std::string& name) -> std::string& {
      return std::find_if(device.details.begin(), device.details.end(), [&](const auto& d) { return d.first == name; })->second;
    };
    detail(kFreeMemory) = free_text(nvml_.get(), device.uuid, device.memory);
  }
  return devices;
}

}  // namespace millrace::cuda
