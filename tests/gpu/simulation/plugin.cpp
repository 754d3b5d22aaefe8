// Backend "simulated": simulates this backend's devices on the host, as a plugin, so that every test and pipeline for "cuda" runs
// without a GPU. Slow, and only built with the tests. Violations of a plan's order or lifetimes end the run as a device error.
#include "millrace/plugin.h"

#include <cstdlib>

#include "millrace/error.h"
#include "runtime/backend.h"
#include "simulation/simulated_machine.h"

namespace millrace::cuda {
namespace {

constexpr int kDevices = 2;

class StrictMachine final : public SimulatedMachine {
 public:
  StrictMachine(std::shared_ptr<Simulation> simulation, int index)
      : SimulatedMachine(std::move(simulation), index), info_(SimulatedMachine::info()) {
    info_.backend = "simulated";
  }
  const DeviceInfo& info() const override { return info_; }
  void finish() override {
    SimulatedMachine::finish();
    for (const testkit::Violation& violation : violations()) fail(ErrorKind::device, "simulation: {}", describe(violation));
  }

 private:
  DeviceInfo info_;
};

// SIMULATED_GPU_FAIL: the number of the piece of work with which a device is lost, from 1 on; SIMULATED_GPU_FAIL_CALL:
// that of the host's call. Without them none is.
std::uint64_t number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

class SimulatedBackend final : public Backend {
 public:
  std::string name() const override { return "simulated"; }
  std::vector<DeviceInfo> devices() override {
    std::vector<DeviceInfo> infos;
    for (int index = 0; index < kDevices; ++index) infos.push_back(StrictMachine(simulation_, index).info());
    return infos;
  }
  std::unique_ptr<Device> open(int index, const DeviceOptions& options) override {
    if (index < 0 || index >= kDevices) fail(ErrorKind::usage, "backend 'simulated' has no device {}", index);
    auto machine = std::make_shared<StrictMachine>(simulation_, index);
    machine->set_warn(options.warn);
    return std::make_unique<CudaDevice>(std::move(machine));
  }

 private:
  std::shared_ptr<Simulation> simulation_ = std::make_shared<Simulation>(
      SimulationOptions{.fail_operation = number_in("SIMULATED_GPU_FAIL"), .fail_call = number_in("SIMULATED_GPU_FAIL_CALL")});
};

}  // namespace
}  // namespace millrace::cuda

MILLRACE_PLUGIN("simulated", "0.1.0", "backend cuda's devices, simulated on the host") {
  registry.add(millrace::BackendType{{"simulated", "a GPU simulated on the host, which reports missing waits"},
                                     [] { return std::make_shared<millrace::cuda::SimulatedBackend>(); }});
}
