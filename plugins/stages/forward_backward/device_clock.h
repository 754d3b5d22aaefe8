#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/backend/backend.h"
#include "millrace/stage.h"
#include "millrace/util/telemetry.h"
#include "millrace/util/trace.h"

namespace millrace {

// How long a device worked on what one instance of a stage submitted. Each piece of work counts from its submission, or from the
// end of the piece before it if that is later, until it is complete; so a device that never waits is busy all the time, whatever
// it does between two pieces (the update of the weights) included. Traces show each piece on a track of the replica.
// Thread-safe. Events may complete after the clock is gone.
class DeviceClock {
 public:
  DeviceClock() = default;
  explicit DeviceClock(const StepContext& context) {
    totals_->graph = context.graph;
    totals_->name = context.name;
    totals_->track = "replica " + std::to_string(context.first_replica + std::max(context.replica, 0));
    if (context.devices.empty()) return;
    const DeviceInfo& device = context.devices[static_cast<std::size_t>(std::max(context.replica, 0))]->info();
    totals_->track += " (" + device.backend + ":" + std::to_string(device.index) + ")";
  }

  // Work for `samples` samples that process() began to submit at `begin` (now_ticks()) is complete with `done`.
  void watch(const Ref<Event>& done, std::uint64_t begin, std::uint64_t samples, std::uint64_t step = 0) {
    done->then([totals = totals_, begin, samples, step] { totals->add(begin, samples, step); });
  }

  Stage::DeviceWork work() const {
    const std::lock_guard lock(totals_->mutex);
    return {static_cast<double>(totals_->ticks) * seconds_per_tick(), totals_->samples};
  }

 private:
  struct Totals {
    std::string graph, name, track;
    std::mutex mutex;
    std::uint64_t last_end = 0, ticks = 0, samples = 0;

    void add(std::uint64_t submitted, std::uint64_t new_samples, std::uint64_t step) {
      const std::lock_guard lock(mutex);
      const std::uint64_t end = std::max(now_ticks(), last_end), begin = std::clamp(last_end, submitted, end);
      ticks += end - begin;
      last_end = end;
      samples += new_samples;
      if (is_traced()) trace({.graph = graph, .name = name, .track = track, .begin = begin, .end = end, .step = step});
    }
  };
  std::shared_ptr<Totals> totals_ = std::make_shared<Totals>();
};

}  // namespace millrace
