// Device information from the driver's management library (libnvidia-ml.so.1), without opening the device. Optional: every answer
// may be missing.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace millrace::cuda {

class Nvml {
 public:
  static std::unique_ptr<Nvml> open();  // null if not available
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool knows(const std::string& uuid) const;                                    // "MIG-8f6d...": true if a device has this UUID
  std::string driver_version() const;                                           // "580.65.06"; empty if unknown
  std::optional<std::size_t> free_memory(const std::string& uuid) const;        // bytes; a slice has its own
  std::string links(const std::string& pci_bus_id) const;                       // "NVLink x18", "PCIe 4.0 x16"; empty if unknown

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
};

}  // namespace millrace::cuda
