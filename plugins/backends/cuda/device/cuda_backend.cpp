#include "cuda_backend.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "cuda_machine.h"
#include "device_list.h"
#include "millrace/error.h"
#include "runtime/backend.h"

namespace millrace::cuda {

// State queried and opened once per process. Thread-safe.
struct CudaProcess {
  const DeviceList& devices() {
    const std::lock_guard lock(mutex_);
    if (!devices_) devices_.emplace();
    return *devices_;
  }

  // REQUIRES: the device exists. Opened GPUs get access to each other's memory.
  std::shared_ptr<Gpu> gpu(const DeviceInfo& info) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Gpu>& known = gpus_[info.index];
    if (known) return known;
    auto opened = std::make_shared<Gpu>(info, choices_.of(info));
    for (const auto& [index, other] : gpus_) {
      if (!other) continue;
      if (other->admit(info.index)) opened->admitted_to(index);
      if (opened->admit(index)) other->admitted_to(info.index);
    }
    return known = std::move(opened);
  }

 private:
  std::mutex mutex_;
  std::optional<DeviceList> devices_;
  ChoicesByModel choices_;
  std::map<int, std::shared_ptr<Gpu>> gpus_;
};

namespace {

// The only object of this plugin that lives as long as the process, because a program may make several backends and the shared
// state takes long to open. Never destroyed: CUDA's own static objects may be gone by then, and the driver frees everything.
CudaProcess& process() {
  static auto* const one = new CudaProcess;
  return *one;
}

}  // namespace

CudaBackend::CudaBackend() : process_(process()) {}

std::vector<DeviceInfo> CudaBackend::devices() { return process_.devices().now(); }
std::string CudaBackend::unavailable_reason() { return process_.devices().unavailable_reason(); }

std::unique_ptr<Device> CudaBackend::open(int index, const DeviceOptions& options) {
  const std::vector<DeviceInfo>& found = process_.devices().found();
  if (found.empty()) fail(ErrorKind::device, "backend 'cuda': {}", unavailable_reason());
  const auto info = std::find_if(found.begin(), found.end(), [&](const DeviceInfo& device) { return device.index == index; });
  if (info == found.end()) {
    fail(ErrorKind::usage, "backend 'cuda' has no usable device {}; there {} {}, from number {}", index,
         found.size() == 1 ? "is" : "are", found.size(), found.front().index);
  }
  auto machine = std::make_shared<CudaMachine>(process_.gpu(*info));
  machine->set_warn(options.warn);
  return std::make_unique<CudaDevice>(std::move(machine));
}

}  // namespace millrace::cuda
