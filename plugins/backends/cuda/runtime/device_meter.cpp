#include "device_meter.h"

#include "millrace/error.h"

namespace millrace::cuda {

DeviceMeter::Piece::~Piece() {
  if (meter_ == nullptr) return;
  try {
    Ref<Mark> end = queue_.timed_mark();
    const std::lock_guard lock(meter_->mutex_);
    meter_->submitted_[&queue_].push_back({kind_, begin_, std::move(end)});
    meter_->count_complete();
  } catch (const Error&) {  // the device has failed; its next use reports it
  }
}

// The host may be many steps ahead: only the oldest incomplete piece of each queue is queried.
void DeviceMeter::count_complete() {
  for (auto& [queue, pieces] : submitted_) {
    for (; !pieces.empty() && pieces.front().end->complete(); pieces.pop_front()) {
      times_.*pieces.front().kind += machine_.seconds_between(*pieces.front().begin, *pieces.front().end);
    }
  }
}

DeviceTimes DeviceMeter::times() {
  const std::lock_guard lock(mutex_);
  try {
    count_complete();
  } catch (const Error&) {  // see above
  }
  return times_;
}

}  // namespace millrace::cuda
