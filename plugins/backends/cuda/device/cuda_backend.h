// Backend "cuda": NVIDIA devices, through cuDNN, cuBLASLt and kernels of our own.
//
// Environment: ../README.md. Without a driver there are no devices, and unavailable_reason() says why; nothing is printed or
// thrown.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace::cuda {

struct CudaProcess;

// Backends of one process share what they find and open.
class CudaBackend final : public Backend {
 public:
  CudaBackend();
  std::string name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices() override;
  std::string unavailable_reason() override;
  // Devices of one process reach each other's memory where the hardware can.
  std::unique_ptr<Device> open(int index, const DeviceOptions& options) override;

 private:
  CudaProcess& process_;
};

}  // namespace millrace::cuda
