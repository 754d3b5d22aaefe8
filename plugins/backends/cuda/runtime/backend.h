// A device of this backend, written only against Machine and Queue: CUDA implements them in a run, the simulation in tests.
#pragma once

#include <memory>

#include "machine.h"

namespace millrace::cuda {

// Every returned stream, buffer and replica keeps the machine alive.
class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<Machine> machine) : machine_(std::move(machine)) {}
  const DeviceInfo& info() const override { return machine_->info(); }
  std::unique_ptr<Stream> make_stream(const std::string& name) override;
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) override;  // pinned
  std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string& what) override;
  std::size_t free_memory() override { return machine_->free_memory(); }
  std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) override;
  void* native(const std::string& api) override { return machine_->native(api); }

  Machine& machine() const { return *machine_; }

 private:
  std::shared_ptr<Machine> machine_;
};

// A network on one GPU (replica.cpp).
std::unique_ptr<Replica> make_replica(std::shared_ptr<Machine> machine, const Network& network, const CompileOptions& options);

}  // namespace millrace::cuda
