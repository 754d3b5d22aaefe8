// Measures how long devices worked on a stage's submissions, from events: for Stage::device_work().
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "millrace/backend/backend.h"
#include "millrace/backend/device_times.h"
#include "millrace/stage.h"
#include "millrace/util/telemetry.h"

namespace millrace {

// Measurements of `replica` on its device; empty if its backend does not measure. `replica` may be null.
inline std::optional<DeviceTimes> device_times_of(const Replica* replica) {
  const auto* meter = dynamic_cast<const MeasuresDevice*>(replica);
  return meter == nullptr ? std::nullopt : std::optional(meter->device_times());
}

// Each piece of work counts from its begin, or from the end of the previous piece if that is later, until it is complete;
// unfinished work counts up to now. A device that never waits is thus always busy, whatever it does between two pieces.
// Thread-safe. Events may complete after the clock is destroyed.
class DeviceClock {
 public:
  // Adds work on `samples` samples that begins at `begin` (now_ticks()) and ends with `done`. REQUIRES: in order.
  void watch(const Ref<Event>& done, std::uint64_t begin, std::uint64_t samples) {
    {
      const std::lock_guard lock(totals_->mutex);
      totals_->under_way.push_back(begin);
    }
    done->then([totals = totals_, samples](const Error*) {
      const std::lock_guard lock(totals->mutex);
      const std::uint64_t end = std::max(now_ticks(), totals->last_end);
      totals->ticks += totals->until(end);
      totals->under_way.pop_front();
      totals->last_end = end;
      totals->samples += samples;
      if (samples > 0) totals->samples_end = end;
    });
  }
  // Adds work that begins when `after` is complete (null: at once).
  void watch_behind(const Ref<Event>& after, const Ref<Event>& done) {
    if (!after || after->complete()) return watch(done, now_ticks(), 0);
    after->then([clock = *this, done](const Error*) mutable { clock.watch(done, now_ticks(), 0); });
  }

  Stage::DeviceWork work() const {
    const std::lock_guard lock(totals_->mutex);
    const std::uint64_t now = std::max(now_ticks(), totals_->samples_end);
    const auto seconds = [](std::uint64_t ticks) { return static_cast<double>(ticks) * seconds_per_tick(); };
    return {seconds(totals_->ticks + totals_->until(now)), totals_->samples, seconds(now - totals_->samples_end)};
  }
  // With the seconds that the backend measured for this kind of work, if it measures. `replica` may be null.
  Stage::DeviceWork work(const Replica* replica, double DeviceTimes::*kind) const {
    Stage::DeviceWork done = work();
    if (const auto times = device_times_of(replica)) done.seconds = (*times).*kind;
    return done;
  }

 private:
  struct Totals {
    // Ticks of the oldest unfinished piece, up to `end`.
    std::uint64_t until(std::uint64_t end) const {
      return under_way.empty() ? 0 : end - std::min(std::max(last_end, under_way.front()), end);
    }
    std::mutex mutex;
    std::deque<std::uint64_t> under_way;  // begin of each piece
    std::uint64_t last_end = 0, samples_end = 0, ticks = 0, samples = 0;
  };
  std::shared_ptr<Totals> totals_ = std::make_shared<Totals>();
};

}  // namespace millrace
