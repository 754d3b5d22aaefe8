#include "profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace {
namespace {

double samples_of(const TelemetryEvent& done) {
  for (const StageTelemetry& stage : done.stages) {
    if (stage.threads == "io") return static_cast<double>(stage.samples);
  }
  return 0;
}

// The images of steps if there are steps: batches that were only read ahead do not count.
double images_of(const TelemetryEvent& done) {
  double images = 0;
  std::string step;
  for (const StageTelemetry& stage : done.stages) {
    const bool counts = stage.on_device && stage.samples > 0 && (step.empty() || step == stage.name);
    if (!counts) continue;
    step = stage.name;
    images += static_cast<double>(stage.samples);
  }
  return images > 0 ? images : samples_of(done);
}

// When a device had computed the last images in images_of(); 0 if it has computed none.
double counted_at(const TelemetryEvent& done) {
  double at = 0;
  for (const StageTelemetry& stage : done.stages) at = std::max(at, stage.counted_at);
  return at;
}

// Images per second, between two times at which a device had just computed images: measurements fall into the middle of steps, of
// which there may be few.
double image_rate(const TelemetryEvent& from, const TelemetryEvent& to) {
  const TelemetryEvent done = between(from, to);
  const double begin = counted_at(from), end = counted_at(to);
  return images_of(done) / (begin > 0 && end > begin ? end - begin : done.elapsed_seconds);
}

// How long a packet waits for the stage, at its slowest input.
double wait_of(const StageTelemetry& stage, const TelemetryEvent& done) {
  double wait = 0;
  for (const EdgeTelemetry& edge : done.edges) {
    if (edge.to != stage.name || edge.packets == 0 || stage.threads == "io") continue;
    wait = std::max(wait, edge.waited_seconds / static_cast<double>(edge.packets));
  }
  return wait;
}

// `whole`: the stage over the whole run: data stages may have finished before the first step.
Profile::Stage stage_row(const StageTelemetry& stage, const StageTelemetry& whole, const TelemetryEvent& done) {
  Profile::Stage row;
  row.name = stage.replica >= 0 && done.devices.size() > 1 ? fmt::format("{}[{}]", stage.name, stage.replica) : stage.name;
  row.on = stage.on_device ? "device" : stage.threads;
  const double busy = stage.on_device ? stage.device_seconds : stage.busy_seconds;
  const auto samples = static_cast<double>(stage.samples);
  row.here = samples / done.elapsed_seconds;
  row.busy = busy / done.elapsed_seconds;
  row.cores = stage.on_device ? 0 : stage.computing_seconds / done.elapsed_seconds;
  row.bytes = static_cast<double>(stage.bytes) / done.elapsed_seconds;
  row.packets = static_cast<double>(stage.packets);
  const StageTelemetry& served = stage.on_device ? stage : whole;
  const double seconds = stage.on_device ? served.device_seconds : served.busy_seconds;
  if (served.samples > 0 && seconds > 0) {
    row.alone = static_cast<double>(served.samples) / seconds;
    row.mean = 1 / row.alone;
    row.p50 = stage.on_device ? 0 : quantile(served.service, 0.5);
    row.p99 = stage.on_device ? 0 : quantile(served.service, 0.99);
  }
  row.wait = wait_of(stage, done);
  if (stage.threads == "io") row.waits_for_credit = done.waited_for_credit_seconds / done.elapsed_seconds;
  return row;
}

// From a device's work in this many seconds.
Profile::Device device_row(const DeviceTelemetry& device, double seconds, bool is_one_of_several) {
  Profile::Device row;
  row.name = is_one_of_several ? fmt::format("{}[{}]", device.name, device.replica) : device.name;
  row.rank = device.rank;
  row.forward_backward = (device.compute_seconds - device.update_seconds) / seconds;
  row.update = device.update_seconds / seconds;
  row.copy = device.copy_seconds / seconds;
  row.sums = device.communication_seconds / seconds;
  row.idle = std::max(0.0, 1 - row.forward_backward - row.update - row.copy - row.sums);  // streams of a GPU overlap
  row.memory = static_cast<double>(device.memory_bytes);
  return row;
}

std::vector<Profile::Rank> ranks_of(const std::vector<Profile::Device>& devices) {
  std::map<int, Profile::Rank> ranks;
  for (const Profile::Device& device : devices) {
    Profile::Rank& rank = ranks[device.rank];
    rank.rank = device.rank;
    ++rank.devices;
    rank.computing += device.forward_backward + device.update + device.copy;
    rank.sums += device.sums;
    rank.idle += device.idle;
    rank.memory += device.memory;
  }
  std::vector<Profile::Rank> rows;
  if (ranks.size() < 2) return rows;
  for (auto& [number, rank] : ranks) {
    for (double* share : {&rank.computing, &rank.sums, &rank.idle}) *share /= rank.devices;
    rows.push_back(rank);
  }
  return rows;
}

// Stages in the order of the plan, a packet's path.
std::vector<Profile::Part> path_of(const TelemetryEvent& done) {
  std::vector<Profile::Part> path;
  for (const StageTelemetry& stage : done.stages) {
    if (stage.packets == 0 || stage.replica > 0) continue;
    const double work = (stage.on_device ? stage.device_seconds : stage.busy_seconds) / static_cast<double>(stage.packets);
    path.push_back({stage.name, wait_of(stage, done), work});
  }
  return path;
}

// What limits the run once `changed` does not; null if nothing measured does.
const Capacity* next_of(const std::vector<Capacity>& all, const Capacity& changed) {
  const Capacity* least = nullptr;
  for (const Capacity& each : all) {
    if (&each != &changed && (least == nullptr || each.rate < least->rate)) least = &each;
  }
  return least;
}

const char* change_of(Capacity::Kind kind) {
  switch (kind) {
    case Capacity::Kind::io: return "one more I/O thread";
    case Capacity::Kind::workers: return "one more data thread";
    case Capacity::Kind::serial: return "a serial stage twice as fast";
    case Capacity::Kind::device: return "a device twice as fast";
    case Capacity::Kind::cores: break;
  }
  return "one more core";
}

}  // namespace

std::vector<Capacity> capacities(const TelemetryEvent& done, const Cores& cores) {
  std::vector<Capacity> all;
  const double images = images_of(done);
  if (images <= 0) return all;
  double of_sample = 0, device = 0;  // seconds of a data thread; of the slowest device
  for (const StageTelemetry& stage : done.stages) {
    if (stage.on_device || stage.busy_seconds <= 0 || stage.samples == 0) continue;
    // Each by its own samples: a source may have read everything ahead before the first measurement.
    const double of_one = static_cast<double>(stage.samples) / stage.busy_seconds;
    if (stage.threads == "io") {
      all.push_back({Capacity::Kind::io, fmt::format("[{}] on {} I/O threads", stage.name, done.io_threads),
                     of_one * done.io_threads, of_one});
      continue;
    }
    of_sample += 1 / of_one;
    if (stage.threads == "one") {
      all.push_back({Capacity::Kind::serial, fmt::format("[{}]", stage.name), of_one, of_one});
    }
  }
  if (of_sample > 0) {
    all.push_back({Capacity::Kind::workers, fmt::format("the {} data threads", done.data_threads), done.data_threads / of_sample,
                   1 / of_sample});
  }
  for (const DeviceTelemetry& each : done.devices) device = std::max(device, each.compute_seconds + each.copy_seconds);
  if (device > 0) all.push_back({Capacity::Kind::device, "the device", images / device, images / device});
  if (cores.seconds > 0) {
    const double of_one = images / cores.seconds;
    all.push_back({Capacity::Kind::cores, fmt::format("the {} cores", cores.count), of_one * cores.count, of_one});
  }
  return all;
}

std::vector<Profile::Gain> gains(const TelemetryEvent& done, const Bottleneck& bottleneck, double rate, const Cores& cores) {
  std::vector<Profile::Gain> found;
  const std::vector<Capacity> all = capacities(done, cores);
  const auto add = [&](std::string change, double to, const std::string& then) {
    if (to > 1.01 * rate) found.push_back({std::move(change), to, then});
  };
  switch (bottleneck.kind) {
    case Bottleneck::Kind::ranks:
    case Bottleneck::Kind::standstill:
    case Bottleneck::Kind::sums:
      add(fmt::format("nothing of {}", bottleneck.name), rate / std::max(1 - bottleneck.share, 0.01), "the device");
      return found;
    case Bottleneck::Kind::credit:
      if (const auto next = std::ranges::min_element(all, {}, &Capacity::rate); next != all.end()) {
        add("more `buffers` of [batch]", next->rate, next->name);
      }
      return found;
    case Bottleneck::Kind::unknown: return found;
    case Bottleneck::Kind::data:
    case Bottleneck::Kind::device: break;
  }
  for (const Capacity& each : all) {
    const Capacity* const next = next_of(all, each);
    if (next != nullptr && next->rate <= each.rate) continue;  // it is not a limit
    const bool doubles = each.kind == Capacity::Kind::serial || each.kind == Capacity::Kind::device;
    // Measured rates hold for the current resource: a change multiplies them.
    const double factor = doubles ? 2 : 1 + each.of_one / each.rate;
    const double most = next == nullptr ? factor : next->rate / each.rate;
    add(change_of(each.kind), rate * std::min(factor, most), factor <= most ? "the same" : next->name);
  }
  std::ranges::sort(found, std::greater(), &Profile::Gain::rate);
  return found;
}

void ProfileBuilder::add(const TelemetryEvent& event, double core_seconds) {
  if (polls_ == 0 || first_.step == 0) {  // until the first step has ended
    first_ = event;
    first_core_seconds_ = core_seconds;
  }
  last_core_seconds_ = core_seconds;
  for (const DeviceTelemetry& device : event.devices) {
    if (device.rank != event.devices.front().rank) add_device(device, event.elapsed_seconds);
  }
  stages_.resize(event.stages.size());
  for (std::size_t s = 0; s < event.stages.size(); ++s) {
    std::int64_t level = 0;
    for (const EdgeTelemetry& edge : event.edges) {
      if (edge.to == event.stages[s].name) level += std::max<std::int64_t>(edge.level, 0);
    }
    stages_[s].level += static_cast<double>(level);
    const bool worked = polls_ == 0 || event.stages[s].packets != last_.stages[s].packets;
    if (level == 0 && !worked) ++stages_[s].idle;
  }
  last_ = event;
  ++polls_;
}

void ProfileBuilder::add_device(const DeviceTelemetry& device, double at) {
  const auto [found, is_new] = others_.try_emplace({device.rank, device.replica});
  Reported& reported = found->second;
  const auto sum_of = [](const DeviceTelemetry& each) {
    return each.compute_seconds + each.copy_seconds + each.communication_seconds;
  };
  if (!is_new && sum_of(device) <= sum_of(reported.last)) return;  // no news since
  reported.last = device;
  reported.last_at = at;
  if (!is_new && first_.step > 0) return;
  reported.first = device;
  reported.first_at = at;
}

std::vector<Profile::Device> ProfileBuilder::devices(const TelemetryEvent& done) const {
  std::vector<Profile::Device> rows;
  const bool are_several = done.devices.size() > 1;
  for (const DeviceTelemetry& device : done.devices) {
    const auto found = others_.find({device.rank, device.replica});
    if (found == others_.end()) {
      rows.push_back(device_row(device, done.elapsed_seconds, are_several));
      continue;
    }
    const Reported& reported = found->second;
    const bool was_reported_once = reported.last_at <= reported.first_at;  // the whole run, as far as reported
    const double seconds =
        was_reported_once ? reported.last_at - (last_.elapsed_seconds - last_.seconds) : reported.last_at - reported.first_at;
    if (seconds <= 0) continue;
    rows.push_back(device_row(was_reported_once ? reported.last : between(reported.first, reported.last), seconds, are_several));
  }
  return rows;
}

Profile ProfileBuilder::build(int cores, double part) const {
  Profile profile;
  if (polls_ == 0) return profile;
  const bool is_short = last_.step <= first_.step + 1 || last_.elapsed_seconds <= first_.elapsed_seconds;
  TelemetryEvent begin;  // the whole run, if it has only one step
  begin.elapsed_seconds = last_.elapsed_seconds - last_.seconds;
  const TelemetryEvent& from = is_short ? begin : first_;
  const TelemetryEvent done = between(from, last_);
  profile.graph = done.graph;
  profile.seconds = done.elapsed_seconds;
  profile.steps = done.step;
  profile.data_threads = done.data_threads;
  profile.io_threads = done.io_threads;
  profile.cores = cores;
  if (profile.seconds <= 0) return profile;
  profile.rate = image_rate(from, last_);
  profile.bottleneck = bottleneck_between(from, last_);
  const Cores used{cores, is_short ? 0 : last_core_seconds_ - first_core_seconds_};
  profile.gains = gains(done, profile.bottleneck, profile.rate, used);
  profile.rate /= part;
  for (Profile::Gain& gain : profile.gains) gain.rate /= part;
  for (std::size_t s = 0; s < done.stages.size(); ++s) {
    if (done.devices.empty() && last_.stages[s].packets == 0) continue;  // a stage of skipped steps
    Profile::Stage row = stage_row(done.stages[s], last_.stages[s], done);
    row.level = stages_[s].level / static_cast<double>(polls_);
    row.starved = static_cast<double>(stages_[s].idle) / static_cast<double>(polls_);
    profile.stages.push_back(row);
  }
  profile.devices = devices(done);
  profile.ranks = ranks_of(profile.devices);
  profile.path = path_of(done);
  profile.waited_for_data = done.waited_for_data_seconds / profile.seconds;
  profile.waited_for_step = done.waited_for_step_seconds / profile.seconds;
  return profile;
}

}  // namespace millrace
