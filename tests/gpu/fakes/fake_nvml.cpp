// NVML of a machine whose only GPU is divided: a slice has memory of its own. For nvml_test.cpp, which opens it as the driver's.
#include <cstring>

struct nvmlDevice_st {
  unsigned long long total, free;
};

namespace {

nvmlDevice_st whole = {80ULL << 30, 50ULL << 30}, slice = {10ULL << 30, 3ULL << 30};

int find(const char* name, const char* is, nvmlDevice_st& device, nvmlDevice_st** to) {
  if (std::strcmp(name, is) != 0) return 1;
  *to = &device;
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  std::strncpy(to, "580.65.06", size);
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, nvmlDevice_st** to) { return find(bus, "0000:01:00.0", whole, to); }
int nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_st** to) {
  return find(uuid, "GPU-1", whole, to) == 0 ? 0 : find(uuid, "MIG-1", slice, to);
}
int nvmlDeviceGetMemoryInfo(nvmlDevice_st* device, unsigned long long* to) {  // total, free, used
  to[0] = device->total;
  to[1] = device->free;
  to[2] = device->total - device->free;
  return 0;
}
int nvmlDeviceGetNvLinkState(nvmlDevice_st*, unsigned link, int* to) {
  *to = link < 2 ? 1 : 0;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_st*, unsigned* to) {
  *to = 5;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_st*, unsigned* to) {
  *to = 16;
  return 0;
}

}  // extern "C"
