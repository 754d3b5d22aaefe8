// What a session will hold in memory, and whether that fits.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>

#include "millrace/detail/split.h"
#include "millrace/util/bytes.h"
#include "run/check.h"
#include "run/memory_limit.h"
#include "run/session.h"

namespace millrace {
namespace {

using Item = Session::MemoryItem;

std::string name_of(const DeviceInfo& device) { return fmt::format("{}:{}", device.backend, device.index); }

bool has_own_memory(const Replica& replica) {
  const std::vector<MemoryPlan::Item> items = replica.memory_plan().items;
  return std::ranges::any_of(items, [](const MemoryPlan::Item& item) { return item.on_device; });
}

// "" when the items fit. Else a line, and one for each of the largest items.
std::string lack_of(std::vector<Item> items, const std::string& device, const std::string& whose, std::size_t limit) {
  constexpr std::size_t kNamed = 5;
  const std::size_t total = total_bytes(items, device);
  if (total <= limit) return "";
  std::string text =
      fmt::format("{} of {} memory would be needed, and {} may be used", bytes_text(total), whose, bytes_text(limit));
  std::erase_if(items, [&](const Item& item) { return item.device != device; });
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.bytes > b.bytes; });
  for (const Item& item : items | std::views::take(kNamed))
    text += fmt::format("\n  {:>10}  {:<20}  {}", bytes_text(item.bytes), item.where, item.what);
  return text;
}

}  // namespace

// Of the slots of a batch, those that this process reads.
std::uint32_t Session::slots_here(const GraphBuild& build) const {
  if (options_.group == nullptr || devices_.all_replicas == 0) return build.batch().size;
  const auto shares = split(build.batch().size, devices_.all_replicas, pipeline_.run.load);
  std::uint32_t slots = 0;
  for (std::size_t r = 0; r < devices_.devices.size(); ++r) slots += shares[devices_.first_replica + r].count;
  return slots;
}

std::vector<Item> Session::planned_memory(const Replicas& replicas) const {
  // Stacks, heaps and queues of the threads that are started later; measured, see tests/pipelines/memory_test.
  constexpr std::size_t kPerThread = std::size_t{3} << 19;
  std::vector<Item> items;
  std::size_t threads = static_cast<std::size_t>(pipeline_.run.io_threads) + available_cores().size() + 4;
  for (std::size_t g = 0; g < builds_.size(); ++g) {
    const GraphBuild& build = *builds_[g];
    const std::string& name = build.plan().name;
    for (std::size_t s = 0; s < build.stages().size(); ++s) {
      std::size_t bytes = 0;
      for (const auto& stage : build.stages()[s]) bytes += stage->memory_bound();
      if (bytes > 0) items.push_back({name + "." + build.plan().stages[s].name, "the stage's own", bytes});
    }
    const std::size_t circulating = slot_bytes(build.stages(), graph_options(g)) * slots_here(build) * build.batch().buffers;
    items.push_back({name, fmt::format("{} circulating batches of {}", build.batch().buffers, build.batch().size), circulating});
  }
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    threads += devices_.cores.replicas[r].size() + 1;
    const std::string name = name_of(devices_.devices[r]->info());
    for (const MemoryPlan::Item& item : replicas[r]->memory_plan().items) {
      items.push_back({fmt::format("{} replica {}", name, r), item.what, item.bytes, item.on_device ? name : ""});
    }
  }
  if (!replicas.empty()) std::ranges::move(planned_copies(replicas), std::back_inserter(items));
  items.push_back({"threads", fmt::format("{} threads", threads), threads * kPerThread});
  return items;
}

// Of values on their way from files into replicas, and from these into files.
std::vector<Item> Session::planned_copies(const Replicas& replicas) const {
  std::size_t all = 0, largest = 0;
  for (const Parameter& parameter : pipeline_.network->parameters) {
    const std::size_t bytes = static_cast<std::size_t>(parameter.shape.elements()) * sizeof(float);
    all += bytes;
    largest = std::max(largest, bytes);
  }
  const bool apart = has_own_memory(*replicas.front());
  const std::size_t copies = apart ? 2 : 1;  // with what a device has copied to the host
  std::vector<Item> items = {{"weights", "the largest tensor, while weights are read or written", copies * largest}};
  // Elsewhere the memory that they move into is the host's too.
  if (apart && !weights_from_.file.empty()) items.push_back({"weights", "those of the file, until devices have them", all});
  const bool writes = !pipeline_.run.folder.empty() && !options_.only_main;
  if (writes && pipeline_.best) items.push_back({"weights", "the best ones, while the disk does not take them", all});
  if (!has_checkpoints()) return items;
  const std::size_t state = checkpoint_bytes(replicas);
  items.push_back({"checkpoints", "what is being written while training goes on", copies * state});
  if (pipeline_.checkpoint.best) items.push_back({"checkpoints", "the best one, while the disk does not take it", state});
  return items;
}

std::vector<Item> Session::memory_bound() const { return with_program(replicas_); }

// What is planned, and the program itself. That is a fixed figure for a network: what was loaded when it is asked must change
// neither the size of a batch nor what --check says. Measured on the host: 20 to 50 MiB for five networks, 126 for vgg16 behind a
// search for the batch's size, which leaves kernels behind, and 100 for the 426 layers of densenet121. On a GPU: not measured.
std::vector<Item> Session::with_program(const Replicas& replicas) const {
  constexpr std::size_t kAlone = std::size_t{128} << 20, kWithDevices = std::size_t{256} << 20, kLayer = std::size_t{96} << 10;
  const bool apart = !replicas.empty() && has_own_memory(*replicas.front());
  const std::size_t layers = pipeline_.network ? pipeline_.network->layers.size() * std::max<std::size_t>(replicas.size(), 1) : 0;
  const std::size_t program = (apart ? kWithDevices : kAlone) + layers * kLayer;
  std::vector<Item> items = {{"program", "code, libraries, tables and kernels, about", program}};
  std::ranges::move(planned_memory(replicas), std::back_inserter(items));
  return items;
}

void Session::find_memory_limits() {
  const std::string& asked = pipeline_.run.memory;
  host_limit_ = asked.empty() ? usable_memory(host_memory()) : static_cast<std::size_t>(parse_bytes(asked));
  if (host_limit_ == 0) {
    fail(ErrorKind::usage, "this system does not say how much memory it has: set memory = \"8 GiB\" in [run]");
  }
  if (options_.group != nullptr) host_limit_ /= static_cast<std::size_t>(options_.group->size());
  host_limit_ = lesser_limit(host_limit_, usable_memory(address_limit()));
  for (const auto& device : devices_.devices) {
    device_limits_.push_back(usable_device_memory(device->free_memory(), device->info().memory));
  }
}

// "" when all fits.
std::string Session::lack_of_memory(const Replicas& replicas) const {
  const std::vector<Item> items = with_program(replicas);
  std::string lack = lack_of(items, "", "the host's", host_limit_);
  for (std::size_t r = 0; r < replicas.size() && lack.empty(); ++r) {
    const std::string name = name_of(devices_.devices[r]->info());
    lack = lack_of(items, name, name + "'s", device_limits_[r]);
  }
  return lack;
}

// What a run with a written batch may take of the host; 0: the system does not say.
std::size_t Session::host_memory_of_all() const {
  const std::size_t all = pipeline_.run.memory.empty() ? host_memory() : parse_bytes(pipeline_.run.memory);
  const std::size_t mine = options_.group == nullptr ? all : all / static_cast<std::size_t>(options_.group->size());
  return lesser_limit(mine, address_limit());
}

// A limit above what there is limits nothing.
void Session::warn_of_limit() {
  const std::string& asked = pipeline_.run.memory;
  const std::size_t there = host_memory();
  if (!is_first() || asked.empty() || there == 0 || parse_bytes(asked) <= there) return;
  observers_.warn(fmt::format(
      "run.memory = \"{}\" is more than the {} that the machine or its control group has: a run that takes them is ended by the "
      "system, without a word",
      asked, bytes_text(there)));
}

// For a pipeline made of weights from anywhere: no user chose its sizes. Called before anything is allocated.
void Session::keep_to_memory() const {
  const std::size_t limit = host_memory_of_all();
  const std::string lack = limit == 0 ? "" : lack_of(memory_bound(), "", "the host's", limit);
  if (!lack.empty()) fail(ErrorKind::usage, "{}\n  a smaller batch takes less: --set predict.batch.size=1", lack);
}

// The system ends a program that takes more than there is, without a word.
void Session::warn_of_memory() {
  if (std::ranges::any_of(builds_, [](const auto& build) { return build->chooses_batch(); })) return;  // what was chosen fits
  const std::size_t limit = host_memory_of_all();
  const std::string lack = limit == 0 ? "" : lack_of(memory_bound(), "", "the host's", limit);
  if (lack.empty()) return;
  observers_.warn(fmt::format("{}\n  size = \"auto\" in batch takes the largest batch that fits", lack));
}

// Adds what is planned, where that is known, what the program holds and what there is. `what` was being done; "": it is not said.
Error Session::with_memory(const Error& error, const std::string& what) const {
  const std::string text = what.empty() ? error.what() : fmt::format("{}, while {}", error.what(), what);
  const std::string held = held_memory(host_memory_of_all());
  if (pipeline_.network && replicas_.empty()) return {error.kind(), fmt::format("{}: {}", text, held)};
  const std::vector<Item> items = memory_bound();
  return {error.kind(),
          fmt::format("{}: {} of the host's memory are planned, {}; size = \"auto\" in batch takes the largest batch "
                      "that fits, and --check says what takes how much",
                      text, bytes_text(total_bytes(items, "") - items.front().bytes), held)};
}

}  // namespace millrace
