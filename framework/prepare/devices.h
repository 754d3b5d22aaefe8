// `devices = "auto" | "all" | "cpu" | "cpu*2" | "cuda" | "cuda:all" | "cuda:0,2" | "cuda:GPU-8f6d"`: which devices a run uses,
// and who gets which processor cores.
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

// The one backend that computes on the host's cores. Replicas of all others wait for their devices.
inline constexpr const char* kHostBackend = "cpu";

// The text taken apart. Throws Error(usage) on what cannot be read.
//
//   "cpu*2"            {"cpu", {{0}, {0}}}
//   "cuda:0,GPU-8f6d"  {"cuda", {{0}, {.uuid = "GPU-8f6d"}}}
//   "0,1"              {"gpu", {{0}, {1}}}
//   "auto", "all", "gpu", "cuda", "cuda:all"   without choices, which means every device (for "cpu": device 0)
struct DeviceRequest {
  struct Choice {
    int index = 0;
    std::string uuid;  // how the device's UUID begins, instead of an index; empty: by index
    friend bool operator==(const Choice&, const Choice&) = default;
  };
  std::string backend;  // "auto", "all" or "gpu" (devices other than the processor), or a name
  std::vector<Choice> choices;
};
DeviceRequest parse_devices(std::string_view text);

// The indices of the devices that `request` means among those that are there. Throws Error(usage) for one that is not there, for
// the beginning of several UUIDs, and for a device that is named twice (but for copies: "cpu*2"). `text` is for messages.
// REQUIRES: `present` is not empty.
std::vector<int> resolve_devices(const DeviceRequest& request, const std::vector<DeviceInfo>& present, std::string_view text);

// Who runs on which processors. Replicas that compute on the CPU get disjoint cores. From eight cores on, an eighth of them is
// kept for the data stages; below that they share all cores with the replicas, because a whole core would cost more than they
// need. Replicas that compute elsewhere leave all cores to the data stages. One without a share of the batch takes none from the
// others.
struct CoreShares {
  std::vector<std::vector<int>> replicas;
  std::vector<int> data;  // kept for them; empty: they run anywhere
};
CoreShares share_cores(const std::vector<int>& cores, std::size_t replicas, const std::vector<double>& load, bool computes_here);
// Where `threads` data threads run: on those that are kept, but anywhere if they are more than these. Replicas keep theirs, on
// which the bits of sums depend.
std::vector<int> cores_of_data(const CoreShares& shares, std::size_t threads);

using Replicas = std::vector<std::unique_ptr<Replica>>;

// The devices of a run, one entry for each replica.
struct OpenDevices {
  std::shared_ptr<Backend> backend;
  std::vector<std::unique_ptr<Device>> devices;  // destroyed before the backend
  CoreShares cores;                              // of devices[0], ...
  std::size_t first_replica = 0;                 // the number of devices[0] among the devices of all processes
  std::size_t all_replicas = 0;                  // of all processes
  std::size_t processes_here = 1;                // that share the machine
  std::size_t data_threads = 1;                  // that `threads = "auto"` means: as many as have a core
};

// The processes of a run that share this machine's devices: those with the same host name, network and visible devices.
// Launchers that give each of their tasks devices of its own hide the others, so such tasks share none.
struct HostShare {
  std::size_t place = 0;              // of this process among them
  std::vector<std::size_t> ranks{0};  // theirs, ascending
  bool has_own_cores = false;         // the launcher has bound each to cores of its own, or some
  std::size_t processes = 1;          // of the run on this machine, whatever devices they see
};
// `present`: the backend's devices that this process sees. `group`: null: it is alone. All processes call it.
HostShare share_of_host(Group* group, const std::vector<DeviceInfo>& present);

// The data threads of one process.
struct DataShare {
  std::vector<int> cores;   // kept for them; empty: they run anywhere
  std::size_t threads = 1;  // that `threads = "auto"` means
};
// `kept`: for the data stages of all processes on this machine; one of several gets a part. `cores`: that this process may use.
// Processes whose devices compute elsewhere divide the cores; those that compute here get as many threads as there are cores.
DataShare share_of_data(const std::vector<int>& kept, std::size_t cores, const HostShare& host, bool computes_here);

// Throws Error(usage) when no plugin brings the backend, Error(device) with the backend's reason when it has no device. A run is
// of one backend: "all" and "gpu" throw Error(usage) where several have devices.
// `text` means devices of each machine, of which a process opens its part. `load`: of the replicas of all processes. `warn`:
// DeviceOptions::warn. `group`: null, or the processes of the run, all of which call it.
OpenDevices open_devices(std::string_view text, const std::vector<double>& load, const Registry& registry,
                         const std::function<void(std::string_view)>& warn = print_warning, Group* group = nullptr);

// "auto": bf16 where every device multiplies it natively, else fp32.
Precision choose_precision(std::string_view text, const OpenDevices& open);

}  // namespace millrace
