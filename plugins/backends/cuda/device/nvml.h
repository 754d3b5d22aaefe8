// What the driver's management library (libnvidia-ml.so.1) knows of a device without opening it. Optional: every answer may lack.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace millrace::cuda {

class Nvml {
 public:
  static std::unique_ptr<Nvml> open();  // null when it is not there
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool knows(const std::string& uuid) const;                                    // "MIG-8f6d...": a device of that UUID
  std::string driver_version() const;                                           // "580.65.06"; empty: unknown
  std::optional<std::size_t> free_memory(const std::string& uuid) const;        // bytes; of a slice its own
  std::string links(const std::string& pci_bus_id) const;                       // "NVLink x18", "PCIe 4.0 x16"; empty: unknown

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
};

}  // namespace millrace::cuda
