#include "run/telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/backend/device_clock.h"
#include "run/bottleneck.h"
#include "util/memory_limit.h"

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
    device.memory_bytes = replicas[r]->memory_plan().total();
    if (const auto times = device_times_of(replicas[r].get())) {
      device.compute_seconds = times->computing();
      device.update_seconds = times->update;
      device.copy_seconds = times->copying;
      if (run.prepared.replicas.all() > 1) device.communication_seconds = times->sums;  // else it waits for a data thread
    } else {
      for (const Graph::StageFigures& stage : figures.stages) {
        if (stage.replica == static_cast<int>(r)) device.compute_seconds += stage.device.seconds;
      }
    }
    all.push_back(device);
  }
  const std::vector<DeviceTelemetry> others = run.prepared.audience.devices_of_others();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

TelemetryEvent telemetry_of_main(const RunContext& run, int data_threads) {
  const Graph::Figures figures = run.graph(0).figures();
  TelemetryEvent event;
  event.graph = run.main().plan().name;
  event.elapsed_seconds = run.observers().elapsed_seconds();
  for (const Graph::StageFigures& stage : figures.stages) {
    StageTelemetry& to = event.stages.emplace_back();
    to.name = stage.name;
    to.replica = stage.replica;
    to.on_device = stage.device.seconds > 0;
    to.packets = stage.packets;
    to.samples = stage.device.samples > 0 ? stage.device.samples : stage.samples;
    if (stage.device.samples > 0) to.counted_at = std::max(event.elapsed_seconds - stage.device.ago, 0.0);
    to.busy_seconds = stage.busy_seconds;
    to.computing_seconds = stage.busy_seconds * stage.computing_share;
    to.device_seconds = stage.device.seconds;
    to.threads = Graph::to_string(stage.threads);
    to.bytes = stage.bytes;
    to.service = stage.service;
  }
  for (const Graph::EdgeFigures& edge : figures.edges)
    event.edges.push_back({edge.from, edge.to, edge.packets, edge.waited_seconds, edge.level});
  event.devices = devices_of(run, figures);
  event.waited_for_data_seconds = figures.waited_for_data_seconds;
  event.waited_for_ranks_seconds = figures.waited_for_ranks_seconds;
  event.waited_for_step_seconds = figures.waited_for_step_seconds;
  event.waited_for_credit_seconds = figures.waited_for_credit_seconds;
  event.data_threads = data_threads;
  event.io_threads = static_cast<int>(run.pipeline().run.io_threads);
  event.resident_bytes = resident_bytes();
  return event;
}

}  // namespace

void TelemetryMeter::resume() {
  computes_.start();
  if (samples_.empty()) samples_.push_back(epoch_begin_ = now());
}

void TelemetryMeter::pause() { computes_.stop(); }

void TelemetryMeter::add_pause(const std::string& what, double seconds) {
  const auto found = std::ranges::find(stood_still_, what, &StandstillTelemetry::what);
  if (found == stood_still_.end()) {
    stood_still_.push_back({what, seconds});
  } else {
    found->seconds += seconds;
  }
}

TelemetryEvent TelemetryMeter::now() const {
  TelemetryEvent event = telemetry_of_main(run_, data_threads_);
  event.seconds = computes_.seconds();
  event.stood_still = stood_still_;
  return event;
}

const TelemetryEvent& TelemetryMeter::measure(std::uint64_t step) {
  newest_ = now();
  TelemetryEvent& event = newest_;
  event.step = step;
  while (samples_.size() > 1 && event.elapsed_seconds - samples_[1].elapsed_seconds >= kWindow) samples_.pop_front();
  if (!samples_.empty()) event.bottleneck = bottleneck_between(samples_.front(), event).text();
  if (samples_.empty() || event.elapsed_seconds - samples_.back().elapsed_seconds >= kWindow / 10) samples_.push_back(event);
  return event;
}

std::string TelemetryMeter::end_epoch() {
  TelemetryEvent event = now();
  std::string text = bottleneck_between(epoch_begin_, event).text();
  epoch_begin_ = std::move(event);
  return text;
}

}  // namespace millrace
