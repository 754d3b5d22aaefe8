// An upper bound of a run's memory, and whether that fits. Computed from values known before the run, without using a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/error.h"

namespace millrace {

struct MemoryItem {
  std::string where;  // "train.batch", "cpu:0", "program"
  std::string what;
  std::size_t bytes = 0;
  std::string device = {};  // device whose own memory it is; "": the host
};

// Memory of the host, or of one device.
std::size_t total_bytes(const std::vector<MemoryItem>& items, const std::string& device = {});

// The users of memory in a run.
struct MemoryNeeds {
  struct Stage {
    std::string name;
    std::size_t bytes = 0;  // sum of Stage::memory_bound() over its instances
  };
  struct Graph {
    std::string name;
    std::vector<Stage> stages = {};
    std::size_t slot_bytes = 0;  // in a circulating batch
    std::uint32_t slots = 0;     // per batch, read by this process
    std::uint32_t batch_size = 0, buffers = 0;
  };
  struct OneReplica {
    std::string device;  // "cuda:0"
    MemoryPlan plan;
    std::size_t cores = 0;
  };
  std::vector<Graph> graphs = {};
  std::vector<OneReplica> replicas = {};
  std::size_t threads = 0;                           // besides those of the replicas
  const Network* network = nullptr;                  // null without a network
  bool weights_from_file = false;                    // whether the run starts from a file of weights
  bool keeps_best_weights = false;                   // whether run.best is set and the run writes files
  std::optional<std::size_t> checkpoint_bytes = {};  // values of one checkpoint; empty if the run writes none
  bool keeps_best_checkpoint = false;                // checkpoint.best
};

// The program comes first. Its size is constant for a network, so that neither the batch size nor --check depends on what is
// loaded at the time of the call.
std::vector<MemoryItem> memory_budget(const MemoryNeeds& needs);

// The memory that may be used.
struct MemoryLimits {
  std::size_t host = 0;
  std::vector<std::pair<std::string, std::size_t>> devices = {};  // by name
  bool is_asked = false;                                          // whether `host` is run.memory instead of the machine's
};

// "" if all fits. Else a line, and one for each of the largest items.
std::string lack_of_memory(const std::vector<MemoryItem>& items, const MemoryLimits& limits);

// The memory for a batch of size "auto". `asked`: run.memory, or "". `processes` share the host's memory. Throws Error(usage) if
// the host's memory is unknown.
MemoryLimits memory_limits(const std::string& asked, std::size_t processes, const std::vector<std::unique_ptr<Device>>& devices);

// The host memory for a run with a fixed batch size; 0 if unknown.
std::size_t host_memory_for(const std::string& asked, std::size_t processes);

// Warning if a limit exceeds the machine's memory and so has no effect; else "".
std::string warning_of_limit(const std::string& asked);

// Warning that the system silently kills programs that exceed the memory; "" if all fits in `limit`, or that is 0. `is_asked`:
// it is run.memory.
std::string warning_of_memory(const std::vector<MemoryItem>& items, std::size_t limit, bool is_asked);

// For a pipeline made from untrusted weights, whose sizes no user chose. Called before allocating. Throws Error(usage) if the
// items need more host memory than `limit`; 0: unknown.
void require_memory(const std::vector<MemoryItem>& items, std::size_t limit, bool is_asked);

// Called before allocating. Throws Error(usage) if the items need several times the machine's memory `limit`; 0: unknown.
void require_possible_memory(const std::vector<MemoryItem>& items, std::size_t limit);

// Adds details to an out-of-memory error: the activity ("" if unknown), the plan (empty if unknown yet), the program's memory
// and the available memory (`limit`; 0: unknown).
Error with_memory(const Error& error, const std::string& doing, const std::vector<MemoryItem>& items, std::size_t limit);

std::string device_name(const DeviceInfo& device);  // "cpu:0"

}  // namespace millrace
