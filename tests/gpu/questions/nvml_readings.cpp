#include "nvml_readings.h"

#include "device.h"
#include "library.h"
#include "millrace/error.h"

// The toolkit's folders do not always hold nvml.h, so the few declarations that are needed stand here. Every function returns 0
// for success.
namespace millrace::gpu {
namespace {

struct Handle;  // nvmlDevice_t points to it
constexpr int kSmClock = 1, kMemoryClock = 2;
constexpr int kTemperatureOfGpu = 0;

class Readings {
 public:
  Readings() {
    char bus[32] = {};
    check(cudaDeviceGetPCIBusId(bus, sizeof bus, kDevice), "cudaDeviceGetPCIBusId");
    if (library_.symbol<int()>("nvmlInit_v2")() != 0) fail(ErrorKind::device, "nvmlInit_v2 failed");
    if (library_.symbol<int(const char*, Handle**)>("nvmlDeviceGetHandleByPciBusId_v2")(bus, &device_) != 0) {
      fail(ErrorKind::device, "NVML does not know device {}", bus);
    }
  }

  // Calls function(device, arguments..., &value).
  template <class Value, class... Arguments>
  void add(const char* key, const char* function, double unit, Arguments... arguments) {
    try {
      Value value = 0;
      const int status = library_.symbol<int(Handle*, Arguments..., Value*)>(function)(device_, arguments..., &value);
      if (status == 0) json_[key] = static_cast<double>(value) / unit;
    } catch (const Error&) {  // this version has no such function
    }
  }

  void add_mig_mode() {
    unsigned now = 0, pending = 0;
    if (library_.symbol<int(Handle*, unsigned*, unsigned*)>("nvmlDeviceGetMigMode")(device_, &now, &pending) == 0)
      json_["mig"] = now;
  }

  Json take() { return std::move(json_); }

 private:
  const cuda::Library library_{{"libnvidia-ml.so.1"}};
  Handle* device_ = nullptr;
  Json json_ = Json::object();
};

}  // namespace

Json nvml_readings() {
  try {
    Readings readings;
    readings.add<unsigned, int>("sm_mhz", "nvmlDeviceGetClockInfo", 1, kSmClock);
    readings.add<unsigned, int>("sm_mhz_at_most", "nvmlDeviceGetMaxClockInfo", 1, kSmClock);
    readings.add<unsigned, int>("memory_mhz", "nvmlDeviceGetClockInfo", 1, kMemoryClock);
    readings.add<unsigned, int>("memory_mhz_at_most", "nvmlDeviceGetMaxClockInfo", 1, kMemoryClock);
    readings.add<unsigned>("watts", "nvmlDeviceGetPowerUsage", 1000);
    readings.add<unsigned>("watts_at_most", "nvmlDeviceGetEnforcedPowerLimit", 1000);
    readings.add<unsigned, int>("celsius", "nvmlDeviceGetTemperature", 1, kTemperatureOfGpu);
    readings.add<unsigned long long>("clocks_held_down_by", "nvmlDeviceGetCurrentClocksThrottleReasons", 1);  // bits
    readings.add<int>("compute_mode", "nvmlDeviceGetComputeMode", 1);  // 0: any process, 2: none, 3: one process
    readings.add<int>("persistence", "nvmlDeviceGetPersistenceMode", 1);
    readings.add<unsigned>("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", 1);
    readings.add<unsigned>("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", 1);
    readings.add_mig_mode();
    return readings.take();
  } catch (const Error& error) {
    return {{"why", error.what()}};
  }
}

}  // namespace millrace::gpu
