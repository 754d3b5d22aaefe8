// Backend "cuda": NVIDIA devices, through cuDNN, cuBLASLt and kernels of our own.
//
// Environment: MILLRACE_CUDA_LIBRARIES (colon-separated folders) is searched first for cuDNN, cuBLASLt and NCCL. Without a driver
// there are no devices, and why_not() says why; nothing is printed or thrown.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda_machine.h"
#include "device_list.h"

namespace millrace::cuda {

class CudaBackend final : public Backend {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices() override { return list_devices().devices; }
  std::string why_not() override { return list_devices().why_not; }
  // Devices opened by one backend reach each other's memory where the hardware can.
  std::unique_ptr<Device> open(int index, const DeviceOptions& options) override;

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<CudaMachine>> machines_;
};

}  // namespace millrace::cuda
