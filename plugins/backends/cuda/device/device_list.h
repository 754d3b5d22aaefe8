// Which devices this program can use, and in one sentence why not. Opens no device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cuda {

class Nvml;

// What can be asked of a machine before any device is opened.
struct DriverState {
  bool library = false;              // libcuda.so.1 can be opened
  std::string driver;                // "580.65.06"; empty: unknown
  int driver_cuda = 0;               // the newest CUDA that the driver knows: 13000 for 13.0
  int runtime_cuda = 0;              // the one that this program was built with
  cudaError_t status = cudaSuccess;  // of cudaGetDeviceCount
  int count = 0;
  std::string visible;  // CUDA_VISIBLE_DEVICES, if it is set ...
  bool visible_is_set = false;
};

// One sentence; empty: there are devices.
std::string why_no_device(const DriverState& state);
std::string cuda_version_text(int version);  // 13000: "13.0"
// "GPU-8e1f1a2b-...", or "MIG-..." of a slice of a GPU, which CUDA enumerates as a device like any other.
std::string uuid_text(const cudaUUID_t& uuid, bool slice = false);

// Compute capability 8.0 is the oldest that the kernels are built for, and the first that multiplies bf16.
inline constexpr int kLeastCapability = 80;

// Asks the driver, NVML and the libraries when it is made, which takes a tenth of a second or more. Thread-safe.
class DeviceList {
 public:
  DeviceList();
  ~DeviceList();
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  const std::vector<DeviceInfo>& found() const { return found_; }     // `index` is CUDA's own number
  const std::string& unavailable_reason() const { return why_not_; }  // when there is none
  std::vector<DeviceInfo> now() const;                                // with the memory that is free at present

 private:
  const std::unique_ptr<Nvml> nvml_;  // null: it is not there
  std::vector<DeviceInfo> found_;
  std::string why_not_;
};

}  // namespace millrace::cuda
