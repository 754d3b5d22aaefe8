// The current work of a graph's threads: for messages about a stalled graph, and for work that counters do not include yet.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace millrace::flow {

class Node;

// Each thread writes its own entry (Counters::this_line()) with plain stores. Threads beyond the 63rd share the last entry,
// which then describes one of them. Any thread reads.
class WorkTable {
 public:
  struct alignas(64) Entry {
    std::atomic<const Node*> node{nullptr};  // null: idle
    std::atomic<std::uint64_t> since{0}, step{0};
    std::atomic<std::uint32_t> begin{0}, count{0};  // the packet's slots; count 0: not a chunk
    std::atomic<std::uint32_t> sample{0};           // the current sample of the packet, from 0
  };

  void begin(int line, const Node* node, std::uint64_t since, std::uint64_t step, std::uint32_t begin, std::uint32_t count) {
    Entry& entry = at(line);
    entry.since.store(since, std::memory_order_relaxed);
    entry.step.store(step, std::memory_order_relaxed);
    entry.begin.store(begin, std::memory_order_relaxed);
    entry.count.store(count, std::memory_order_relaxed);
    entry.sample.store(0, std::memory_order_relaxed);
    entry.node.store(node, std::memory_order_release);
  }
  void end(int line) { at(line).node.store(nullptr, std::memory_order_relaxed); }

  // Ticks of the packets in `node` until `now`, summed over threads.
  std::uint64_t ticks_of(const Node* node, std::uint64_t now) const {
    std::uint64_t ticks = 0;
    for (const Entry& entry : entries_) {
      if (entry.node.load(std::memory_order_acquire) != node) continue;
      const std::uint64_t since = entry.since.load(std::memory_order_relaxed);
      ticks += now - std::min(now, since);
    }
    return ticks;
  }

  Entry& at(int line) { return entries_[static_cast<std::size_t>(line)]; }
  const std::array<Entry, 64>& entries() const { return entries_; }

 private:
  std::array<Entry, 64> entries_;
};

}  // namespace millrace::flow
