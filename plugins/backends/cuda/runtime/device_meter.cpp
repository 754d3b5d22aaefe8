#include "device_meter.h"

#include "millrace/error.h"

namespace millrace::cuda {

DeviceMeter::Piece::~Piece() {
  if (meter_ == nullptr) return;
  try {
    Ref<Mark> end = queue_.timed_mark();
    const std::lock_guard lock(meter_->mutex_);
    meter_->submitted_.push_back({kind_, begin_, std::move(end)});
    meter_->count_complete();
  } catch (const Error&) {  // the device has failed; its next use says so
  }
}

// Pieces of several queues complete in another order than they were submitted; a device works on few at a time.
void DeviceMeter::count_complete() {
  std::erase_if(submitted_, [this](const Submitted& piece) {
    if (!piece.end->complete()) return false;
    times_.*piece.kind += machine_.seconds_between(*piece.begin, *piece.end);
    return true;
  });
}

DeviceTimes DeviceMeter::times() {
  const std::lock_guard lock(mutex_);
  try {
    count_complete();
  } catch (const Error&) {  // as above
  }
  return times_;
}

}  // namespace millrace::cuda
