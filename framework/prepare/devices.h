// `devices = "auto" | "all" | "cpu" | "cpu*2" | "cuda" | "cuda:all" | "cuda:0,2" | "cuda:GPU-8f6d"`: the devices of a run, and
// the assignment of processor cores.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/plugin.h"
#include "millrace/util/group.h"

namespace millrace {

// The only backend that computes on the host's cores. Replicas of all others wait for their devices.
inline constexpr const char* kHostBackend = "cpu";

// The parsed text. Throws Error(usage) if it is invalid.
//
//   "cpu*2"            {"cpu", {{0}, {0}}}
//   "cuda:0,GPU-8f6d"  {"cuda", {{0}, {.uuid = "GPU-8f6d"}}}
//   "0,1"              {"gpu", {{0}, {1}}}
//   "auto", "all", "gpu", "cuda", "cuda:all"   without choices, which means every device (for "cpu": device 0)
struct DeviceRequest {
  struct Choice {
    int index = 0;
    std::string uuid;  // beginning of the device's UUID, instead of an index; empty: by index
    friend bool operator==(const Choice&, const Choice&) = default;
  };
  std::string backend;  // "auto", "all" or "gpu" (devices other than the processor), or a name
  std::vector<Choice> choices;
};
DeviceRequest parse_devices(std::string_view text);

// The indices of the requested devices among those present. Throws Error(usage) for a missing device, an ambiguous UUID prefix,
// and a device named twice (except copies: "cpu*2"). `text` is for messages. REQUIRES: `present` is not empty.
std::vector<int> resolve_devices(const DeviceRequest& request, const std::vector<DeviceInfo>& present, std::string_view text);

// The devices that `text` requests. Throws Error(usage) if no plugin has the backend, or "all" or "gpu" mean several; Error(device)
// with the backend's reason if it has no device.
struct FoundDevices {
  DeviceRequest request;
  std::shared_ptr<Backend> backend;
  std::vector<DeviceInfo> present;  // all of the backend
  std::vector<int> indices;         // of the requested ones, see resolve_devices(); at least one
};
FoundDevices find_devices(std::string_view text, const Registry& registry);

// Assignment of processor cores. Replicas that compute on the CPU get disjoint cores. With eight or more cores, an eighth is
// reserved for the data stages; with fewer, the data stages share all cores with the replicas, because a whole core would be
// more than they need. Replicas that compute elsewhere leave all cores to the data stages. A replica without a share of the
// batch takes no cores from the others.
struct CoreShares {
  std::vector<std::vector<int>> replicas;
  std::vector<int> data;  // reserved for them; empty: they run anywhere
};
CoreShares share_cores(const std::vector<int>& cores, std::size_t replicas, const std::vector<double>& load, bool computes_here);
// The cores of `threads` data threads: the reserved ones, or any if there are more threads. Replicas keep theirs, on which the
// rounding of sums depends.
std::vector<int> cores_of_data(const CoreShares& shares, std::size_t threads);

using Replicas = std::vector<std::unique_ptr<Replica>>;

// The devices of a run, one entry for each replica.
struct OpenDevices {
  std::shared_ptr<Backend> backend;
  std::vector<std::unique_ptr<Device>> devices;  // destroyed before the backend
  CoreShares cores;                              // cores of devices[0], ...
  std::size_t first_replica = 0;                 // index of devices[0] among the devices of all processes
  std::size_t all_replicas = 0;                  // in all processes
  std::size_t processes_here = 1;                // on this machine
  std::size_t data_threads = 1;                  // value of `threads = "auto"`: as many as have a core
};

// The processes of a run that share this machine's devices: those with the same host name, network and visible devices. Tasks
// whose launcher gives each its own devices and hides the others share none.
struct HostShare {
  std::size_t place = 0;              // index of this process among them
  std::vector<std::size_t> ranks{0};  // their ranks, ascending
  bool has_own_cores = false;         // the launcher has bound some to their own cores
  std::size_t processes = 1;          // the run's on this machine, whatever devices they see
};
// `present`: the backend's devices visible to this process. `group`: null for a single process. All processes call it.
HostShare share_of_host(Group* group, const std::vector<DeviceInfo>& present);

// The data threads of one process.
struct DataShare {
  std::vector<int> cores;   // reserved for them; empty: they run anywhere
  std::size_t threads = 1;  // value of `threads = "auto"`
};
// `kept`: cores reserved for data stages of all processes on this machine; each process gets a part. `cores`: number available
// to this process. Processes whose devices compute elsewhere divide the cores; those that compute here get as many threads as
// there are cores.
DataShare share_of_data(const std::vector<int>& kept, std::size_t cores, const HostShare& host, bool computes_here);

// Throws as find_devices(): a run uses one backend. `text` names devices of each machine, of which a process opens its part. `load`: shares of the replicas of all processes. `warn`: DeviceOptions::warn. `group`: null, or the processes
// of the run, all of which call it.
OpenDevices open_devices(std::string_view text, const std::vector<double>& load, const Registry& registry,
                         const std::function<void(std::string_view)>& warn = print_warning, Group* group = nullptr);

// "auto": bf16 if every device multiplies it natively, else fp32.
Precision choose_precision(std::string_view text, const OpenDevices& open);

}  // namespace millrace
