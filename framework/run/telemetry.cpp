#include "run/telemetry.h"

#include <fmt/format.h>

#include "prepare/memory_limit.h"

namespace millrace {
namespace {

std::vector<DeviceTelemetry> devices_of(const RunContext& run, const Graph::Figures& figures) {
  std::vector<DeviceTelemetry> all;
  const OpenDevices& opened = run.prepared.replicas.devices();
  const Replicas& replicas = run.replicas();
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    DeviceTelemetry device;
    const DeviceInfo& info = opened.devices[r]->info();
    device.name = fmt::format("{}:{}", info.backend, info.index);
    device.replica = static_cast<int>(opened.first_replica + r);
    device.rank = run.options().group == nullptr ? 0 : run.options().group->rank();
    for (const Graph::StageFigures& stage : figures.stages) {
      if (stage.replica == static_cast<int>(r)) device.compute_seconds += stage.device.seconds;
    }
    all.push_back(device);
  }
  return all;
}

}  // namespace

TelemetryEvent telemetry_of_main(const RunContext& run) {
  const Graph::Figures figures = run.graph(0).figures();
  TelemetryEvent event;
  event.graph = run.main().plan().name;
  for (const Graph::StageFigures& stage : figures.stages) {
    event.stages.push_back({stage.name, stage.replica, stage.device.samples > 0, stage.packets,
                            stage.device.samples > 0 ? stage.device.samples : stage.samples, stage.busy_seconds,
                            stage.device.seconds});
  }
  for (const Graph::EdgeFigures& edge : figures.edges)
    event.edges.push_back({edge.from, edge.to, edge.packets, edge.waited_seconds, edge.level});
  event.devices = devices_of(run, figures);
  event.waited_for_data_seconds = figures.waited_for_data_seconds;
  event.waited_for_step_seconds = figures.waited_for_step_seconds;
  event.data_threads = run.prepared.data_threads();
  event.io_threads = static_cast<int>(run.pipeline().run.io_threads);
  event.resident_bytes = resident_bytes();
  return event;
}

}  // namespace millrace
