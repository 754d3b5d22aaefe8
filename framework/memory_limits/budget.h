// What a run will hold in memory, at most, and whether that fits. Computed from what is known before the run: no device is asked.
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
  std::string device = {};  // whose own memory it is; "": the host's
};

// A part of the host's memory, or of one device's own.
std::size_t total_bytes(const std::vector<MemoryItem>& items, const std::string& device = {});

// What takes memory in a run.
struct MemoryNeeds {
  struct Stage {
    std::string name;
    std::size_t bytes = 0;  // Stage::memory_bound() of all its instances
  };
  struct Graph {
    std::string name;
    std::vector<Stage> stages = {};
    std::size_t slot_bytes = 0;  // of a circulating batch
    std::uint32_t slots = 0;     // of a batch, that this process reads
    std::uint32_t batch_size = 0, buffers = 0;
  };
  struct OneReplica {
    std::string device;  // "cuda:0"
    MemoryPlan plan;
    std::size_t cores = 0;
  };
  std::vector<Graph> graphs = {};
  std::vector<OneReplica> replicas = {};
  std::size_t threads = 0;                           // beside those of the replicas
  const Network* network = nullptr;                  // null: there is none
  bool weights_from_file = false;                    // the run starts from a file of weights
  bool keeps_best_weights = false;                   // run.best, of a run that writes files
  std::optional<std::size_t> checkpoint_bytes = {};  // of the values that one holds; nothing: the run writes none
  bool keeps_best_checkpoint = false;                // checkpoint.best
};

// The program comes first. It is a fixed figure for a network, so that neither the size of a batch nor what --check says depends
// on what was loaded when this is asked.
std::vector<MemoryItem> memory_budget(const MemoryNeeds& needs);

// How much may be used.
struct MemoryLimits {
  std::size_t host = 0;
  std::vector<std::pair<std::string, std::size_t>> devices = {};  // by name
  bool is_asked = false;                                          // `host` is run.memory, and not the machine's
};

// "" when all fits. Else a line, and one for each of the largest items.
std::string lack_of_memory(const std::vector<MemoryItem>& items, const MemoryLimits& limits);

// What a batch of size "auto" may count on. `asked`: run.memory, "" where it does not say. `processes` share the host's memory.
// Throws Error(usage) where the host does not say how much memory it has.
MemoryLimits memory_limits(const std::string& asked, std::size_t processes, const std::vector<std::unique_ptr<Device>>& devices);

// What a run with a written batch may take of the host; 0: the system does not say.
std::size_t host_memory_for(const std::string& asked, std::size_t processes);

// A limit above what there is limits nothing: a sentence that says so; "": it is not above, or there is none.
std::string warning_of_limit(const std::string& asked);

// The system ends a program that takes more than there is, without a word: a sentence; "": all fits in `limit`, or that is 0.
// `is_asked`: it is run.memory.
std::string warning_of_memory(const std::vector<MemoryItem>& items, std::size_t limit, bool is_asked);

// For a pipeline made of weights from anywhere, whose sizes no user chose. Called before anything is allocated. Throws
// Error(usage) where the items need more of the host than `limit`; 0: it is not known.
void require_memory(const std::vector<MemoryItem>& items, std::size_t limit, bool is_asked);

// Called before anything is allocated. Throws Error(usage) where the items need several times what the machine has, `limit`; 0:
// it is not known.
void require_possible_memory(const std::vector<MemoryItem>& items, std::size_t limit);

// Adds to an error that memory has run out what was being done ("": it is not said), what is planned (empty: that is not known
// yet), what the program holds and what there is (`limit`; 0: it is not known).
Error with_memory(const Error& error, const std::string& doing, const std::vector<MemoryItem>& items, std::size_t limit);

std::string device_name(const DeviceInfo& device);  // "cpu:0"

}  // namespace millrace
