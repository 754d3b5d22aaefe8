// Backend "cpu": this machine's processor, through oneDNN and kernels of our own.
//
// One device. If it is opened several times (devices = "cpu*2"), each Device and each Replica has its own processors.
// Environment: OMP_WAIT_POLICY=passive must be set before this plugin is loaded, or idle teams keep their processors busy.
#pragma once

#include "millrace/backend/backend.h"
#include "millrace/backend/engine_choices.h"
#include "primitive_checks.h"

namespace millrace::cpu {

class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceInfo info, DeviceOptions options, std::shared_ptr<EngineChoices> choices);
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override;
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) override;
  std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string& what) override;
  std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) override;

 private:
  DeviceInfo info_;
  DeviceOptions options_;
  std::shared_ptr<EngineChoices> choices_;
};

std::unique_ptr<Replica> make_replica(const Network& network, const CompileOptions& options, const DeviceOptions& device,
                                      const PrimitiveChecks& checks);

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::vector<DeviceInfo> devices() override;
  std::string unavailable_reason() override;
  std::unique_ptr<Device> open(int index, const DeviceOptions& options) override;

 private:
  std::shared_ptr<EngineChoices> choices_;  // shared by all its devices
};

}  // namespace millrace::cpu
