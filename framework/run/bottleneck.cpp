#include "run/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/util/recent_rates.h"

namespace millrace {
namespace {

constexpr double kNoticed = 0.05;   // share of the time; shorter hindrances are not reported
constexpr double kLong = 0.2;       // the same for pauses, idle threads and unexplained waits
constexpr double kLateShare = 0.5;  // of the longest wait for sums: the others wait for a device that waits less
constexpr double kBusyData = 0.6;   // of their time: less busy data threads hold up no device

const StageTelemetry* find(const TelemetryEvent& event, const StageTelemetry& stage) {
  const auto found = std::ranges::find_if(
      event.stages, [&](const StageTelemetry& each) { return each.name == stage.name && each.replica == stage.replica; });
  return found == event.stages.end() ? nullptr : &*found;
}

double stood_still(const TelemetryEvent& event, const std::string& what) {
  const auto found = std::ranges::find(event.stood_still, what, &StandstillTelemetry::what);
  return found == event.stood_still.end() ? 0 : found->seconds;
}

double busy_seconds(const DeviceTelemetry& device) { return device.compute_seconds + device.copy_seconds; }

// The stage that a device works for most.
Bottleneck device_bound(const TelemetryEvent& done) {
  Bottleneck found{.kind = Bottleneck::Kind::device, .name = "the device"};
  for (const StageTelemetry& stage : done.stages) {
    const double share = stage.device_seconds / done.elapsed_seconds;
    // A sum that overlaps other work costs the device no time.
    if (!stage.on_device || stage.replica < 0 || share <= found.share) continue;
    found.name = stage.name;
    found.replica = done.devices.size() > 1 ? stage.replica : -1;
    found.share = share;
  }
  return found;
}

// How busy the data threads are, all together.
double workers_share(const TelemetryEvent& done) {
  double busy = 0;
  for (const StageTelemetry& stage : done.stages) {
    if (!stage.on_device && stage.threads != "io") busy += stage.busy_seconds;
  }
  return busy / (done.elapsed_seconds * std::max(done.data_threads, 1));
}

// The stages that only data threads run. A stage after the gate submits work, and its busy time is small.
Bottleneck data_bound(const TelemetryEvent& done) {
  const double workers = workers_share(done);
  double of_busiest = 0;
  Bottleneck found{.kind = Bottleneck::Kind::data};
  for (const StageTelemetry& stage : done.stages) {
    if (stage.on_device) continue;
    const double share = stage.busy_seconds / (done.elapsed_seconds * threads_of(stage, done));
    // How busy the threads are that it runs on: a serial stage may keep one thread while the others idle.
    const double busy = stage.threads == "workers" ? std::max(workers, share) : share;
    if (busy < of_busiest || (busy == of_busiest && share <= found.share)) continue;
    of_busiest = busy;
    found.name = stage.name;
    found.share = share;
    found.computing_share = stage.busy_seconds > 0 ? std::min(stage.computing_seconds / stage.busy_seconds, 1.0) : 1;
  }
  // Batches are few where the threads idle, and no batch stands ready in front of the gate.
  const double credit = done.waited_for_credit_seconds / done.elapsed_seconds;
  if (1 - of_busiest > kLong && done.waited_for_data_seconds > kLong * done.elapsed_seconds && credit > of_busiest)
    return {.kind = Bottleneck::Kind::credit, .name = "free batches", .share = credit};
  return found;
}

// Devices wait for sums: for a device that is later than they are, here or of another rank, or for the network.
Bottleneck sum_bound(const TelemetryEvent& done, double share) {
  const auto latest = std::ranges::max_element(done.devices, {}, busy_seconds);
  const auto longest = std::ranges::max_element(done.devices, {}, &DeviceTelemetry::communication_seconds);
  if (latest->communication_seconds < kLateShare * longest->communication_seconds) {
    if (latest->rank != done.devices.front().rank) {
      return {.kind = Bottleneck::Kind::device,
              .name = fmt::format("rank {}", latest->rank),
              .share = busy_seconds(*latest) / done.elapsed_seconds};
    }
    Bottleneck found = device_bound(done);
    if (found.share > 0) return found;
  }
  // The stage that sums over all replicas.
  const auto sums = std::ranges::find_if(done.stages, [](const auto& stage) { return stage.on_device && stage.replica < 0; });
  return {.kind = Bottleneck::Kind::sums, .name = sums == done.stages.end() ? "sums of gradients" : sums->name, .share = share};
}

}  // namespace

int threads_of(const StageTelemetry& stage, const TelemetryEvent& event) {
  if (stage.threads == "io") return std::max(event.io_threads, 1);
  return stage.threads == "one" ? 1 : std::max(event.data_threads, 1);
}

DeviceTelemetry between(const DeviceTelemetry& before, const DeviceTelemetry& now) {
  DeviceTelemetry done = now;
  done.compute_seconds -= before.compute_seconds;
  done.copy_seconds -= before.copy_seconds;
  done.communication_seconds -= before.communication_seconds;
  done.update_seconds -= before.update_seconds;
  return done;
}

TelemetryEvent between(const TelemetryEvent& before, const TelemetryEvent& now) {
  TelemetryEvent done = now;
  done.step -= before.step;
  done.seconds -= before.seconds;
  done.elapsed_seconds -= before.elapsed_seconds;
  done.waited_for_data_seconds -= before.waited_for_data_seconds;
  done.waited_for_step_seconds -= before.waited_for_step_seconds;
  done.waited_for_ranks_seconds -= before.waited_for_ranks_seconds;
  done.waited_for_credit_seconds -= before.waited_for_credit_seconds;
  for (StageTelemetry& stage : done.stages) {
    const StageTelemetry* const earlier = find(before, stage);
    if (earlier == nullptr) continue;
    stage.packets -= earlier->packets;
    stage.samples -= earlier->samples;
    stage.bytes -= earlier->bytes;
    stage.busy_seconds -= earlier->busy_seconds;
    stage.computing_seconds = std::max(stage.computing_seconds - earlier->computing_seconds, 0.0);  // a share of samples
    stage.device_seconds -= earlier->device_seconds;
    stage.service = since(earlier->service, stage.service);
  }
  for (std::size_t e = 0; e < std::min(before.edges.size(), done.edges.size()); ++e) {
    done.edges[e].packets -= before.edges[e].packets;
    done.edges[e].waited_seconds -= before.edges[e].waited_seconds;
  }
  for (DeviceTelemetry& device : done.devices) device = between(earlier_of(device, before.devices), device);
  for (StandstillTelemetry& still : done.stood_still) still.seconds -= stood_still(before, still.what);
  return done;
}

Bottleneck bottleneck_between(const TelemetryEvent& before, const TelemetryEvent& now) {
  const TelemetryEvent done = between(before, now);
  if (!(done.elapsed_seconds > 0)) return {};
  double busy = 0, communication = 0, here = 0;  // of the devices of this rank, which come first
  for (const DeviceTelemetry& device : done.devices) {
    if (device.rank != done.devices.front().rank) continue;
    busy += busy_seconds(device);
    communication += device.communication_seconds;
    ++here;
  }
  busy /= std::max(here, 1.0);
  communication /= std::max(here, 1.0);
  const double sums = communication / done.elapsed_seconds;
  Bottleneck still{.kind = Bottleneck::Kind::standstill};
  for (const StandstillTelemetry& each : done.stood_still) {
    if (const double share = each.seconds / done.elapsed_seconds; share > still.share) {
      still.share = share;
      still.name = each.what;
    }
  }
  // Steps that are submitted ahead wait for a batch while the device still works.
  double data = std::min(done.waited_for_data_seconds, done.elapsed_seconds - busy) / done.elapsed_seconds;
  const double ranks = done.waited_for_ranks_seconds / done.elapsed_seconds;
  // Data threads also submit a step's work: where they are busy, a device waits for that as it waits for data.
  const double unexplained = 1 - busy / done.elapsed_seconds - data - ranks - sums - still.share;
  if (!done.devices.empty() && unexplained > kLong && workers_share(done) >= kBusyData) data += unexplained;
  if (still.share < kLong) still.share = 0;
  Bottleneck found;
  if (const double most = std::max({data, ranks, sums, still.share}); most < kNoticed) {
    found = device_bound(done);
  } else if (most == still.share) {
    found = still;
  } else if (most == ranks) {
    found = {.kind = Bottleneck::Kind::ranks, .name = "other ranks", .share = ranks};
  } else {
    found = most == data ? data_bound(done) : sum_bound(done, sums);
  }
  if (found.name.empty() || (found.kind == Bottleneck::Kind::device && found.share <= 0)) return {};
  if (!done.devices.empty()) found.device_idle = std::clamp(1 - busy / done.elapsed_seconds - sums, 0.0, 1.0);
  found.share = std::clamp(found.share, 0.0, 1.0);
  return found;
}

std::string Bottleneck::text() const {
  if (kind == Kind::unknown) return {};
  const std::string of = replica < 0 ? name : fmt::format("{}[{}]", name, replica);
  const std::string idle = device_idle ? fmt::format(", device idle {:.0f} %", 100 * *device_idle) : "";
  return fmt::format("{} {:.0f} %{}", of, 100 * share, idle);
}

}  // namespace millrace
