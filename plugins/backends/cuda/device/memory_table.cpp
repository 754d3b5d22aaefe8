#include "memory_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace millrace::cuda {
namespace {

std::string amount(std::size_t bytes) {
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

}  // namespace

void MemoryTable::add(const void* memory, std::size_t bytes, const std::string& what) {
  const std::lock_guard lock(mutex_);
  entries_[memory] = {bytes, what};
}

void MemoryTable::remove(const void* memory) {
  const std::lock_guard lock(mutex_);
  entries_.erase(memory);
}

std::size_t MemoryTable::total() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [memory, entry] : entries_) sum += entry.bytes;
  return sum;
}

std::string MemoryTable::out_of_memory(std::size_t bytes, const std::string& what, std::size_t free,
                                       std::size_t device_total) const {
  std::map<std::string, std::size_t> by_name;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [memory, entry] : entries_) by_name[entry.what] += entry.bytes;
  }
  std::vector<std::pair<std::string, std::size_t>> shares(by_name.begin(), by_name.end());
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::size_t held = 0;
  std::vector<std::string> names;
  for (const auto& [name, size] : shares) {
    held += size;
    names.push_back(fmt::format("{} {}", name, amount(size)));
  }
  return fmt::format("out of memory: '{}' needs {}; this program holds {}{}, {} of {} are free; a smaller batch needs less", what,
                     amount(bytes), amount(held), names.empty() ? "" : fmt::format(" ({})", fmt::join(names, ", ")), amount(free),
                     amount(device_total));
}

}  // namespace millrace::cuda
