#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>

#include "millrace/backend/backend.h"
#include "millrace/stage.h"
#include "millrace/util/telemetry.h"

namespace millrace {

// How long a device worked on what one instance of a stage submitted. Each piece of work counts from its submission, or from the
// end of the piece before it if that is later, until it is complete; so a device that never waits is busy all the time, whatever
// it does between two pieces (the update of the weights) included.
// Thread-safe. Events may complete after the clock is gone.
class DeviceClock {
 public:
  // Work for `samples` samples that process() began to submit at `begin` (now_ticks()) is complete with `done`.
  void watch(const Ref<Event>& done, std::uint64_t begin, std::uint64_t samples) {
    done->then([totals = totals_, begin, samples] {
      const std::lock_guard lock(totals->mutex);
      const std::uint64_t end = std::max(now_ticks(), totals->last_end);
      totals->ticks += end - std::clamp(totals->last_end, begin, end);
      totals->last_end = end;
      totals->samples += samples;
    });
  }

  Stage::DeviceWork work() const {
    const std::lock_guard lock(totals_->mutex);
    return {static_cast<double>(totals_->ticks) * seconds_per_tick(), totals_->samples};
  }

 private:
  struct Totals {
    std::mutex mutex;
    std::uint64_t last_end = 0, ticks = 0, samples = 0;
  };
  std::shared_ptr<Totals> totals_ = std::make_shared<Totals>();
};

}  // namespace millrace
