#include "run/slow_replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/util/wire.h"
#include "prepare/load_choice.h"
#include "ranks/endpoint.h"

namespace millrace {
namespace {

constexpr double kLonger = 1.25, kSeconds = 0.5;  // smaller ratios and shorter measurements may be noise

std::vector<ReplicaWork> work_here(const RunContext& run) {
  const OpenDevices& devices = run.prepared.replicas.devices();
  const Group* const group = run.options().group;
  std::vector<ReplicaWork> all(run.replicas().size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    const DeviceInfo& info = devices.devices[r]->info();
    all[r].place = fmt::format("{}:{}", info.backend, info.index);
    if (group != nullptr) all[r].place += fmt::format(" of rank {} on {}", group->rank(), host_name());
  }
  for (const Graph::StageFigures& stage : run.graph(0).figures().stages) {
    if (stage.replica < 0 || static_cast<std::size_t>(stage.replica) >= all.size()) continue;
    ReplicaWork& replica = all[static_cast<std::size_t>(stage.replica)];
    replica.seconds += stage.device.seconds;
    replica.samples += static_cast<double>(stage.device.samples);
  }
  return all;
}

std::vector<ReplicaWork> work_of_all(const RunContext& run) {
  std::vector<ReplicaWork> all = work_here(run);
  Group* const group = run.options().group;
  if (group == nullptr) return all;
  WireWriter mine;
  for (const ReplicaWork& each : all) mine.put(std::string_view(each.place)).put(each.seconds).put(each.samples);
  all.clear();
  for (const auto& bytes : group->all_gather(Group::kRun, mine.bytes())) {
    for (WireReader reader(bytes); !reader.is_done();) {
      ReplicaWork& each = all.emplace_back();
      each.place = reader.get<std::string>();
      each.seconds = reader.get<double>();
      each.samples = reader.get<double>();
    }
  }
  return all;
}

}  // namespace

std::string slow_replica_text(const std::vector<ReplicaWork>& replicas) {
  if (replicas.size() < 2) return {};
  const auto slowest = std::ranges::max_element(replicas, {}, &ReplicaWork::seconds);
  double others = 0, speed = 0;
  for (const ReplicaWork& each : replicas) {
    if (&each != &*slowest) others = std::max(others, each.seconds);
    if (each.seconds > 0) speed = std::max(speed, each.samples / each.seconds);
  }
  if (others <= 0 || speed <= 0 || slowest->seconds < std::max(kLonger * others, kSeconds)) return {};
  std::vector<double> load;  // a replica that computes nothing stays without a share
  for (const ReplicaWork& each : replicas) {
    load.push_back(each.seconds > 0 ? std::round(each.samples / each.seconds / speed * 100) / 100 : 0);
  }
  return fmt::format(
      "replica {} ({}) takes {:.1f} times as long for its share of a step as the others, which wait for it; load = {} in [run] "
      "would balance them",
      slowest - replicas.begin(), slowest->place, slowest->seconds / others, load_text(load));
}

void SlowReplica::check(const RunContext& run) {
  if (is_named_ || run.prepared.replicas.all() < 2 || run.options().only_main) return;
  const std::string text = slow_replica_text(work_of_all(run));
  is_named_ = !text.empty();
  run.prepared.audience.warn_once(text);
}

}  // namespace millrace
