#include "cuda_backend.h"

#include <algorithm>

#include "../backend.h"
#include "millrace/error.h"

namespace millrace::cuda {

std::unique_ptr<Device> CudaBackend::open(int index, const DeviceOptions& /*options*/) {
  const DeviceList list = list_devices();
  if (list.devices.empty()) fail(ErrorKind::device, "backend 'cuda': {}", list.why_not);
  const auto info = std::find_if(list.devices.begin(), list.devices.end(), [&](const DeviceInfo& d) { return d.index == index; });
  if (info == list.devices.end()) {
    fail(ErrorKind::usage, "backend 'cuda' has no usable device {}; there {} {}, from number {}", index,
         list.devices.size() == 1 ? "is" : "are", list.devices.size(), list.devices.front().index);
  }
  auto machine = std::make_shared<CudaMachine>(*info);
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<CudaMachine>& known : machines_) {
    const std::shared_ptr<CudaMachine> other = known.lock();
    if (!other || other->info().index == index) continue;
    if (other->admit(index)) machine->admitted_to(other->info().index);
    if (machine->admit(other->info().index)) other->admitted_to(index);
  }
  std::erase_if(machines_, [](const std::weak_ptr<CudaMachine>& known) { return known.expired(); });
  machines_.push_back(machine);
  return std::make_unique<CudaDevice>(std::move(machine));
}

}  // namespace millrace::cuda
