// Backend "cuda": NVIDIA devices, through cuDNN, cuBLASLt and our own kernels.
//
// Environment: ../README.md. Without a driver there are no devices, and unavailable_reason() returns the cause; nothing is
// printed or thrown.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cuda {

struct CudaProcess;

// Backends of one process share their device list and opened libraries.
class CudaBackend final : public Backend {
 public:
  CudaBackend();
  std::string name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices() override;
  std::string unavailable_reason() override;
  // Devices of one process access each other's memory if the hardware can.
  std::unique_ptr<Device> open(int index, const DeviceOptions& options) override;

 private:
  CudaProcess& process_;
};

}  // namespace millrace::cuda
