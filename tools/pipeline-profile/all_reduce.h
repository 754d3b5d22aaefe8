// The time of a sum of gradients over devices and machines, by a model of the network.
//
// An all-reduce of S bytes on H hosts of D devices has two levels, each a ring (2 (n - 1) turns, 2 (n - 1) / n * S bytes for each
// member) or, between hosts, a tree if that is faster (2 log2 H turns, 2 S bytes). A turn costs a latency. Source: Thakur,
// Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005). If replicas compute on processors,
// each host sends a slice to each other one, adds, and sends the sum to all: as many bytes as a ring, in two turns.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace {

struct NetworkModel {
  double bandwidth = 12.5e9;     // bytes per second of a host, in each direction
  double latency = 10e-6;        // seconds per turn between hosts
  double link_bandwidth = 50e9;  // a device's, within its host
  double link_latency = 5e-6;
  bool exchanges_slices = false;  // hosts sum like communicator "local"
};

// Sets `key` of the model: network=100Gb/s, latency=10us, link=50GB/s, link_latency=5us. Returns false for unknown keys.
// `option`: beginning of the message of Error(usage) for an invalid value.
bool set_network(NetworkModel& network, std::string_view option, const std::string& key, const std::string& value);

struct ReduceTime {
  double latency = 0, transfer = 0;  // seconds
  double seconds() const { return latency + transfer; }
};
ReduceTime all_reduce_time(double bytes, int devices, int hosts, const NetworkModel& network);

// A histogram of bucket sizes, and what limits the sum of each: latency or bandwidth.
std::string bucket_text(std::span<const double> bucket_bytes, int devices, int hosts, const NetworkModel& network);

}  // namespace millrace
