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

// Records in a trace the work of one replica's device for a stage, on the replica's track: "replica 0 (cpu:0)". Each piece of
// work begins at its submission or at the completion of the piece before, whichever is later. Thread-safe. Events may complete
// after this object is destroyed.
class DeviceTrace {
 public:
  explicit DeviceTrace(const StepContext& context) {
    const int replica = std::max(context.replica, 0);
    track_->graph = context.graph;
    track_->stage = context.name;
    track_->name = "replica " + std::to_string(context.first_replica + replica);
    if (context.devices.empty()) return;
    const DeviceInfo& device = context.devices[static_cast<std::size_t>(replica)]->info();
    track_->name += " (" + device.backend + ":" + std::to_string(device.index) + ")";
  }

  // Work that process() began to submit at `begin` (now_ticks()) completes with `done`.
  void watch(const Ref<Event>& done, std::uint64_t begin, std::uint64_t step) {
    if (!is_traced()) return;
    done->then([track = track_, begin, step](const Error*) { track->add(begin, step); });
  }

 private:
  struct Track {
    std::string graph, stage, name;
    std::mutex mutex;
    std::uint64_t last_end = 0;

    void add(std::uint64_t submitted, std::uint64_t step) {
      const std::lock_guard lock(mutex);
      const std::uint64_t end = std::max(now_ticks(), last_end), begin = std::clamp(last_end, submitted, end);
      last_end = end;
      trace({.graph = graph, .name = stage, .track = name, .begin = begin, .end = end, .step = step});
    }
  };
  std::shared_ptr<Track> track_ = std::make_shared<Track>();
};

}  // namespace millrace
