// A run's progress in Prometheus' text format (version 0.0.4): for a server of /metrics, and for files that node_exporter reads.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "millrace/observer.h"
#include "millrace/util/telemetry_event.h"

namespace millrace {

// The Content-Type of a reply with this text.
inline constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// Every sample has the label `run`: the run's name and, where it has a folder, the folder's. Times are in seconds, sizes in
// bytes; names that end in _total are counters, which begin at 0 with each process. An event without data yet (its graph is
// empty) adds nothing. `running`: the run has not ended.
//
//   # HELP millrace_images_per_second Rate of training.
//   # TYPE millrace_images_per_second gauge
//   millrace_images_per_second{run="quickstart/2026-01-01T00-00-00"} 412.5
//
// Thread-safe.
std::string prometheus_text(const RunStart& run, bool running, const TickEvent& tick, const TelemetryEvent& telemetry,
                            std::span<const PassEvent> passes = {});

// Progress after the last step of an epoch, which has no tick. `before`: the newest tick; empty if none.
TickEvent tick_after(const RunStart& run, const EpochEvent& epoch, TickEvent before);

}  // namespace millrace
