// What a run waits for, from two samples of it. Pure.
#pragma once

#include <optional>
#include <string>

#include "millrace/util/telemetry_event.h"

namespace millrace {

// All shares are shares of the time between the two samples (elapsed_seconds).
//
// What is named keeps devices from computing for longer than anything else does; where nothing keeps them for 5 % of the time,
// it is the devices' own work. Standing still, in which devices may compute, is named from 20 % of the time on. Data that does
// not come is blamed on the threads that are busiest: the stage that takes most of their time is named, or, where they idle for a
// fifth of the time and no batch is free, the batches.
struct Bottleneck {
  enum class Kind {
    unknown,     // nothing was done between the samples
    device,      // share: in which the busiest device works on what stage `name` submits
    data,        // share of the time of the threads that run stage `name`, in which they are inside it
    credit,      // share: in which no batch was free to be read into
    ranks,       // share: in which a batch was here, and another rank had none
    sums,        // share: in which devices wait for sums of gradients, and have nothing else to do
    standstill,  // share: in which the main graph stood still for `name`
  };
  Kind kind = Kind::unknown;
  std::string name = {};  // "decode_image", "forward_backward", "validate", "checkpoint", "free batches", "rank 3"
  int replica = -1;       // of a device that others wait for
  double share = 0;       // from 0 to 1
  // The share in which a device neither computes nor copies nor waits for sums, on average over those of this rank. None: there are none.
  std::optional<double> device_idle = {};
  double computing_share = 1;  // of the time in stage `name`, in which its threads computed and did not wait

  std::string text() const;  // "decode_image 61 %, device idle 40 %"; "" where it is unknown
};

// REQUIRES: both are of one graph, `before` not later than `now`. A default-made `before` is the run's begin.
Bottleneck bottleneck_between(const TelemetryEvent& before, const TelemetryEvent& now);

// What was done between the two: each sum is the difference, and levels are those of `now`.
TelemetryEvent between(const TelemetryEvent& before, const TelemetryEvent& now);
DeviceTelemetry between(const DeviceTelemetry& before, const DeviceTelemetry& now);  // of one device

// Threads that may run `stage` at once.
int threads_of(const StageTelemetry& stage, const TelemetryEvent& event);

}  // namespace millrace
