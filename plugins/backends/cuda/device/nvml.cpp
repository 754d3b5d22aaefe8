#include "nvml.h"

#include "library.h"
#include "millrace/error.h"

// The toolkit's folders may lack nvml.h, so the few declarations needed are here. Every function returns 0 for success.
namespace millrace::cuda {
namespace {

struct Handle;  // target of nvmlDevice_t
struct Memory {
  unsigned long long total, free, used;
};
constexpr unsigned kMaxLinks = 18;

}  // namespace

struct Nvml::Functions {
  Library library{{"libnvidia-ml.so.1"}};
  int (*init)() = library.symbol<int()>("nvmlInit_v2");
  int (*shutdown)() = library.symbol<int()>("nvmlShutdown");
  int (*driver_version)(char*, unsigned) = library.symbol<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  int (*by_bus)(const char*, Handle**) = library.symbol<int(const char*, Handle**)>("nvmlDeviceGetHandleByPciBusId_v2");
  int (*by_uuid)(const char*, Handle**) = library.symbol<int(const char*, Handle**)>("nvmlDeviceGetHandleByUUID");
  int (*memory)(Handle*, Memory*) = library.symbol<int(Handle*, Memory*)>("nvmlDeviceGetMemoryInfo");
  int (*link_state)(Handle*, unsigned, int*) = library.symbol<int(Handle*, unsigned, int*)>("nvmlDeviceGetNvLinkState");
  int (*pcie_generation)(Handle*, unsigned*) = library.symbol<int(Handle*, unsigned*)>("nvmlDeviceGetMaxPcieLinkGeneration");
  int (*pcie_width)(Handle*, unsigned*) = library.symbol<int(Handle*, unsigned*)>("nvmlDeviceGetMaxPcieLinkWidth");

  Handle* device(const std::string& bus) const {
    Handle* handle = nullptr;
    return by_bus(bus.c_str(), &handle) == 0 ? handle : nullptr;
  }
};

std::unique_ptr<Nvml> Nvml::open() {
  try {
    auto functions = std::make_unique<Functions>();
    if (functions->init() != 0) return nullptr;
    return std::unique_ptr<Nvml>(new Nvml(std::move(functions)));
  } catch (const Error&) {
    return nullptr;
  }
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() { functions_->shutdown(); }

bool Nvml::knows(const std::string& uuid) const {
  Handle* device = nullptr;
  return functions_->by_uuid(uuid.c_str(), &device) == 0;
}

std::string Nvml::driver_version() const {
  char text[80] = {};
  return functions_->driver_version(text, sizeof(text)) == 0 ? std::string(text) : std::string();
}

std::optional<std::size_t> Nvml::free_memory(const std::string& uuid) const {
  Handle* device = nullptr;
  Memory memory{};
  if (functions_->by_uuid(uuid.c_str(), &device) != 0 || functions_->memory(device, &memory) != 0) return std::nullopt;
  return static_cast<std::size_t>(memory.free);
}

std::string Nvml::links(const std::string& pci_bus_id) const {
  Handle* device = functions_->device(pci_bus_id);
  if (device == nullptr) return {};
  unsigned active = 0, generation = 0, width = 0;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int state = 0;
    if (functions_->link_state(device, link, &state) == 0 && state == 1) ++active;
  }
  std::string text = active == 0 ? std::string() : fmt::format("NVLink x{}", active);
  if (functions_->pcie_generation(device, &generation) == 0 && functions_->pcie_width(device, &width) == 0) {
    text += fmt::format("{}PCIe {}.0 x{}", text.empty() ? "" : ", ", generation, width);
  }
  return text;
}

}  // namespace millrace::cuda
