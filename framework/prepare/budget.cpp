#include "prepare/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>

#include "millrace/util/bytes.h"
#include "util/memory_limit.h"

namespace millrace {
namespace {

using Items = std::vector<MemoryItem>;

bool has_own_memory(const MemoryNeeds::OneReplica& replica) {
  return std::ranges::any_of(replica.plan.items, [](const MemoryPlan::Item& item) { return item.on_device; });
}

// "" when the items fit. `who`: sets the limit.
std::string lack_of(Items items, const std::string& device, const std::string& whose, const char* who, std::size_t limit) {
  constexpr std::size_t kNamed = 5;
  const std::size_t total = total_bytes(items, device);
  if (total <= limit) return "";
  std::string text = fmt::format("the run needs {} of {} memory; {} allows {}", bytes_text(total), whose, who, bytes_text(limit));
  std::erase_if(items, [&](const MemoryItem& item) { return item.device != device; });
  std::stable_sort(items.begin(), items.end(), [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
  for (const MemoryItem& item : items | std::views::take(kNamed))
    text += fmt::format("\n  {:>10}  {:<20}  {}", bytes_text(item.bytes), item.where, item.what);
  return text;
}

std::string lack_of_host(const Items& items, std::size_t limit, bool is_asked) {
  return limit == 0 ? "" : lack_of(items, "", "the host's", is_asked ? "run.memory" : "the machine", limit);
}

// Measured on the host: 20 to 50 MiB for five networks, 126 for vgg16 after a search for the batch size, which leaves kernels
// behind, and 100 for the 426 layers of densenet121. Not measured on a GPU.
MemoryItem program(const MemoryNeeds& needs) {
  constexpr std::size_t kAlone = std::size_t{128} << 20, kWithDevices = std::size_t{256} << 20, kLayer = std::size_t{96} << 10;
  const bool apart = !needs.replicas.empty() && has_own_memory(needs.replicas.front());
  const std::size_t layers = needs.network ? needs.network->layers.size() * std::max<std::size_t>(needs.replicas.size(), 1) : 0;
  return {"program", "program and libraries (estimate)", (apart ? kWithDevices : kAlone) + layers * kLayer};
}

Items of_graph(const MemoryNeeds::Graph& graph) {
  Items items;
  for (const MemoryNeeds::Stage& stage : graph.stages) {
    if (stage.bytes > 0) items.push_back({graph.name + "." + stage.name, "buffers of the stage", stage.bytes});
  }
  items.push_back({graph.name, fmt::format("{} circulating batches of {}", graph.buffers, graph.batch_size),
                   graph.slot_bytes * graph.slots * graph.buffers});
  return items;
}

// The memory of values in transfer between files and replicas.
Items of_copies(const MemoryNeeds& needs) {
  std::size_t all = 0, largest = 0;
  for (const Parameter& parameter : needs.network->parameters) {
    const std::size_t bytes = static_cast<std::size_t>(parameter.shape.elements()) * sizeof(float);
    all += bytes;
    largest = std::max(largest, bytes);
  }
  const bool apart = has_own_memory(needs.replicas.front());
  const std::size_t copies = apart ? 2 : 1;  // plus the copy that a device makes in host memory
  Items items = {{"weights", "the largest tensor, while weights are read or written", copies * largest}};
  // Otherwise they move into memory of the host as well.
  if (apart && needs.weights_from_file) items.push_back({"weights", "weights of the file, until devices have copied them", all});
  if (needs.keeps_best_weights) items.push_back({"weights", "best weights, kept if the disk is full", all});
  if (!needs.checkpoint_bytes) return items;
  const std::size_t state = *needs.checkpoint_bytes;
  items.push_back({"checkpoints", "copy that is being written during training", state});
  if (apart) items.push_back({"checkpoints", "pinned memory, into which a device copies its states", state});
  if (needs.keeps_best_checkpoint) items.push_back({"checkpoints", "best checkpoint, kept if the disk is full", state});
  return items;
}

}  // namespace

std::string device_name(const DeviceInfo& device) { return fmt::format("{}:{}", device.backend, device.index); }

std::size_t total_bytes(const Items& items, const std::string& device) {
  std::size_t total = 0;
  for (const MemoryItem& item : items) {
    if (item.device == device) total += item.bytes;
  }
  return total;
}

Items memory_budget(const MemoryNeeds& needs) {
  // Stacks, heaps and queues of threads started later; measured, see tests/pipelines/memory_test.
  constexpr std::size_t kPerThread = std::size_t{3} << 19;
  Items items = {program(needs)};
  std::size_t threads = needs.threads;
  for (const MemoryNeeds::Graph& graph : needs.graphs) std::ranges::move(of_graph(graph), std::back_inserter(items));
  for (std::size_t r = 0; r < needs.replicas.size(); ++r) {
    const MemoryNeeds::OneReplica& replica = needs.replicas[r];
    threads += replica.cores + 1;
    for (const MemoryPlan::Item& item : replica.plan.items) {
      items.push_back({fmt::format("{} replica {}", replica.device, r), item.what, item.bytes,
                       item.on_device ? replica.device : std::string()});
    }
  }
  if (!needs.replicas.empty()) std::ranges::move(of_copies(needs), std::back_inserter(items));
  items.push_back({"threads", fmt::format("{} threads", threads), threads * kPerThread});
  return items;
}

std::string lack_of_memory(const Items& items, const MemoryLimits& limits) {
  std::string lack = lack_of(items, "", "the host's", limits.is_asked ? "run.memory" : "the machine", limits.host);
  for (std::size_t d = 0; d < limits.devices.size() && lack.empty(); ++d) {
    const auto& [name, limit] = limits.devices[d];
    lack = lack_of(items, name, name + "'s", "the device", limit);
  }
  return lack;
}

MemoryLimits memory_limits(const std::string& asked, std::size_t processes, const std::vector<std::unique_ptr<Device>>& devices) {
  MemoryLimits limits{.host = asked.empty() ? usable_memory(host_memory()) : static_cast<std::size_t>(parse_bytes(asked)),
                      .is_asked = !asked.empty()};
  if (limits.host == 0) {
    fail(ErrorKind::usage, "this system does not report how much memory it has: set memory = \"8 GiB\" in [run]");
  }
  limits.host = lesser_limit(limits.host / processes, usable_memory(address_limit()));
  for (const auto& device : devices) {
    limits.devices.emplace_back(device_name(device->info()), usable_device_memory(device->free_memory(), device->info().memory));
  }
  return limits;
}

std::size_t host_memory_for(const std::string& asked, std::size_t processes) {
  const std::size_t all = asked.empty() ? host_memory() : static_cast<std::size_t>(parse_bytes(asked));
  return lesser_limit(all / processes, address_limit());
}

std::string warning_of_limit(const std::string& asked) {
  const std::size_t there = host_memory();
  if (asked.empty() || there == 0 || parse_bytes(asked) <= there) return {};
  return fmt::format(
      "run.memory = \"{}\" is more than the {} that the machine or its control group has: the system would kill a run that uses "
      "it, without a message",
      asked, bytes_text(there));
}

std::string warning_of_memory(const Items& items, std::size_t limit, bool is_asked) {
  const std::string lack = lack_of_host(items, limit, is_asked);
  return lack.empty() ? lack : fmt::format("{}\n  size = \"auto\" in batch takes the largest batch that fits", lack);
}

void require_memory(const Items& items, std::size_t limit, bool is_asked) {
  const std::string lack = lack_of_host(items, limit, is_asked);
  if (!lack.empty()) fail(ErrorKind::usage, "{}\n  a smaller batch takes less: --set predict.batch.size=1", lack);
}

// A small excess may be swapped, or never touched.
void require_possible_memory(const Items& items, std::size_t limit) {
  constexpr std::size_t kHopeless = 2;
  if (limit > 0 && total_bytes(items) / kHopeless > limit) fail(ErrorKind::usage, "{}", warning_of_memory(items, limit, false));
}

Error with_memory(const Error& error, const std::string& doing, const Items& items, std::size_t limit) {
  const std::string text = doing.empty() ? error.what() : fmt::format("{}, while {}", error.what(), doing);
  const std::string held = held_memory(limit);
  if (items.empty()) return {error.kind(), fmt::format("{}: {}", text, held)};
  return {error.kind(), fmt::format("{}: {} of the host's memory are planned, {}; size = \"auto\" in batch takes the largest "
                                    "batch that fits, and --check lists what uses it",
                                    text, bytes_text(total_bytes(items) - items.front().bytes), held)};
}

}  // namespace millrace
