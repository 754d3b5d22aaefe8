// Shared by all parts of a running graph: the oneTBB graph, the first error, and the count of packets away from home.
#pragma once

#include <oneapi/tbb/flow_graph.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "graph/tsan.h"
#include "millrace/error.h"
#include "util/mutex.h"

namespace millrace::flow {

class Node;

// The current work of a graph's threads: for messages about a stalled graph, and for work that counters do not include yet. Each
// thread writes its own entry (Counters::this_line()) with plain stores. Threads beyond the 63rd share the last entry,
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

// Batches and step tokens in flight: the graph is not finished while one is out. After an error some may never return (a join
// may wait for a dropped packet), so the count can be abandoned. Thread-safe.
//
// home() must be the caller's last use of the graph: when nothing is out, wait() may return and the graph be destroyed.
class Credits {
 public:
  explicit Credits(tbb::flow::graph& graph) : graph_(&graph) {}

  void out() {
    const Lock lock(mutex_);
    if (abandoned_) return;
    ++out_;
    graph_->reserve_wait();
  }

  void home() {
    {
      const Lock lock(mutex_);
      if (abandoned_) return;
      --out_;
    }
    graph_->release_wait();
  }

  // Keeps the graph alive while a caller that holds only a credit uses it: another thread may abandon the credit at any moment.
  // False: it was abandoned, and the graph may be gone.
  class Stay {
   public:
    explicit Stay(Credits& credits) : credits_(credits), stays_(credits.begin_stay()) {}
    ~Stay() {
      if (stays_) credits_.graph_->release_wait();
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    explicit operator bool() const { return stays_; }

   private:
    Credits& credits_;
    bool stays_;
  };

  void abandon() {
    int left = 0;
    {
      const Lock lock(mutex_);
      abandoned_ = true;
      left = std::exchange(out_, 0);
    }
    for (; left > 0; --left) graph_->release_wait();
  }

 private:
  bool begin_stay() {
    const Lock lock(mutex_);
    if (!abandoned_) graph_->reserve_wait();
    return !abandoned_;
  }

  Mutex mutex_;
  tbb::flow::graph* graph_;
  int out_ MILLRACE_GUARDED_BY(mutex_) = 0;
  bool abandoned_ MILLRACE_GUARDED_BY(mutex_) = false;
};

struct Core {
  tbb::flow::graph graph;  // bound to the arena that is current at construction

  // Waits until nothing is in flight or held.
  void wait() {
    graph.wait_for_all();
    acquired(this);
  }

  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Keeps the first error; from then on every node drops its packets. Thread-safe.
  void fail(Error error) {
    {
      const Lock lock(mutex_);
      if (error_) return;
      error_ = std::move(error);
    }
    failed_.store(true, std::memory_order_release);
    on_failure();
  }

  std::optional<Error> error() const {
    const Lock lock(mutex_);
    return error_;
  }

  std::function<void()> on_failure;  // set once, before the first start
  bool guarded = false;              // GraphOptions::guard
  WorkTable work;

 private:
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::optional<Error> error_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::flow
