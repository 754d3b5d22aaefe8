#include "all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "values.h"

namespace millrace {
namespace {

ReduceTime ring(double bytes, int members, double bandwidth, double latency) {
  const double turns = 2.0 * (members - 1);
  return {turns * latency, turns / members * bytes / bandwidth};
}

ReduceTime tree(double bytes, int members, double bandwidth, double latency) {
  return {2 * std::ceil(std::log2(members)) * latency, 2 * bytes / bandwidth};
}

ReduceTime slices(double bytes, int members, double bandwidth, double latency) {
  constexpr double kPayload = 1448.0 / 1538;  // share in an Ethernet frame with TCP's headers and the gap after it
  return {2 * latency, 2.0 * (members - 1) / members * bytes / (kPayload * bandwidth)};
}

}  // namespace

bool set_network(NetworkModel& network, std::string_view option, const std::string& key, const std::string& value) {
  const std::string what = fmt::format("{}: {}", option, key);
  if (key == "network")
    network.bandwidth = bandwidth_value(what, value);
  else if (key == "latency")
    network.latency = time_value(what, value);
  else if (key == "link")
    network.link_bandwidth = bandwidth_value(what, value);
  else if (key == "link_latency")
    network.link_latency = time_value(what, value);
  else
    return false;
  return true;
}

ReduceTime all_reduce_time(double bytes, int devices, int hosts, const NetworkModel& network) {
  ReduceTime time;
  if (devices > 1) time = ring(bytes, devices, network.link_bandwidth, network.link_latency);
  if (hosts < 2) return time;
  if (network.exchanges_slices) {
    const ReduceTime between = slices(bytes, hosts, network.bandwidth, network.latency);
    return {time.latency + between.latency, time.transfer + between.transfer};
  }
  const ReduceTime by_ring = ring(bytes, hosts, network.bandwidth, network.latency);
  const ReduceTime by_tree = tree(bytes, hosts, network.bandwidth, network.latency);
  const ReduceTime& faster = by_ring.seconds() < by_tree.seconds() ? by_ring : by_tree;
  return {time.latency + faster.latency, time.transfer + faster.transfer};
}

std::string bucket_text(std::span<const double> bucket_bytes, int devices, int hosts, const NetworkModel& network) {
  if (bucket_bytes.empty()) return "no gradients are summed\n";
  std::map<int, std::pair<int, int>> sizes;  // by log2 of bytes: buckets, and those bounded by latency
  for (const double bytes : bucket_bytes) {
    const ReduceTime time = all_reduce_time(bytes, devices, hosts, network);
    auto& [count, bound] = sizes[static_cast<int>(std::floor(std::log2(std::max(bytes, 1.0))))];
    ++count;
    if (time.latency > time.transfer) ++bound;
  }
  std::string text = "sizes of buckets, in KiB\n";
  for (const auto& [log, counts] : sizes) {
    text += fmt::format("{:>10.4g} to {:<8.4g} {:<16} {:>3}  {}\n", std::exp2(log - 10), std::exp2(log - 9),
                        std::string(static_cast<std::size_t>(std::min(counts.first, 16)), '#'), counts.first,
                        counts.second == 0              ? "bound by bandwidth"
                        : counts.second == counts.first ? "bound by latency"
                                                        : "bound by latency or bandwidth");
  }
  return text;
}

}  // namespace millrace
