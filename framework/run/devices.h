// `devices = "auto" | "cpu" | "cpu*2" | "cuda" | "cuda:0,2"`: which devices a run uses, and who gets which processor cores.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend.h"
#include "millrace/plugin.h"

namespace millrace {

// The text taken apart: "cpu*2" is {"cpu", {0, 0}}; "cuda:0,2" is {"cuda", {0, 2}}; "cuda" and "auto" leave indices empty, which
// means every device (for "cpu": device 0). Throws Error(usage) on anything else.
struct DeviceRequest {
  std::string backend;  // "auto" or a name
  std::vector<int> indices;
};
DeviceRequest parse_devices(std::string_view text);

// Who runs on which processors. Replicas that compute on the CPU get disjoint cores. From eight cores on, the data stages have an
// eighth of them to themselves; below that they share all cores with the replicas, because a whole core would cost more than
// they need.
struct CoreShares {
  std::vector<std::vector<int>> replicas;
  std::vector<int> data;  // empty: anywhere
};
CoreShares share_cores(const std::vector<int>& cores, std::size_t replicas, const std::vector<double>& load);

std::vector<int> available_cores();  // that this process may run on

// The devices of a run, one entry for each replica.
struct OpenDevices {
  std::shared_ptr<Backend> backend;
  std::vector<std::unique_ptr<Device>> devices;  // destroyed before the backend
  CoreShares cores;
};
OpenDevices open_devices(std::string_view text, const std::vector<double>& load, const Registry& registry);

// "auto": bf16 where every device multiplies it natively, else fp32.
Precision choose_precision(std::string_view text, const OpenDevices& open);

}  // namespace millrace
