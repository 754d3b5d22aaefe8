// The devices that this program can use, or one sentence why there are none. Opens no device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cuda {

class Nvml;

// A machine's state before any device is opened.
struct DriverState {
  bool library = false;              // libcuda.so.1 can be loaded
  std::string driver;                // "580.65.06"; empty: unknown
  int driver_cuda = 0;               // the newest CUDA that the driver supports: 13000 for 13.0
  int runtime_cuda = 0;              // the version that this program was built with
  cudaError_t status = cudaSuccess;  // result of cudaGetDeviceCount
  int count = 0;
  std::string visible;  // CUDA_VISIBLE_DEVICES, if it is set ...
  bool visible_is_set = false;
};

// One sentence; empty if there are devices.
std::string why_no_device(const DriverState& state);
std::string cuda_version_text(int version);  // 13000: "13.0"
// "GPU-8e1f1a2b-...", or "MIG-..." for a slice of a GPU, which CUDA enumerates as an ordinary device.
std::string uuid_text(const cudaUUID_t& uuid, bool slice = false);

// Compute capability 8.0 is the oldest that the kernels are built for, and the first with bf16 multiplication.
inline constexpr int kLeastCapability = 80;

// The constructor queries the driver, NVML and the libraries, which takes a tenth of a second or more. Thread-safe.
class DeviceList {
 public:
  DeviceList();
  ~DeviceList();
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  const std::vector<DeviceInfo>& found() const { return found_; }     // `index` is CUDA's number
  const std::string& unavailable_reason() const { return why_not_; }  // if there are none
  std::vector<DeviceInfo> now() const;                                // with the currently free memory

 private:
  const std::unique_ptr<Nvml> nvml_;  // null if not available
  std::vector<DeviceInfo> found_;
  std::string why_not_;
};

}  // namespace millrace::cuda
