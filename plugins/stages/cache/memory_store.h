#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace millrace {

// Lock-free table from sample index to the place of its entry, filled by many threads. Memory pages are committed on first use.
// REQUIRES: index < 2^32.
template <class T>
class IndexTable {
 public:
  IndexTable() = default;
  IndexTable(const IndexTable&) = delete;
  IndexTable& operator=(const IndexTable&) = delete;
  ~IndexTable() {
    for (auto& page : pages_) delete page.load();
  }

  T get(std::uint64_t index) const {
    const Page* page = pages_[index >> 16].load(std::memory_order_acquire);
    return page ? (*page)[index & 0xffff].load(std::memory_order_acquire) : T{};
  }
  // Returns false if another thread was faster.
  bool set(std::uint64_t index, T value) {
    T none{};
    return page(index >> 16)[index & 0xffff].compare_exchange_strong(none, value, std::memory_order_release);
  }

 private:
  using Page = std::array<std::atomic<T>, 0x10000>;

  Page& page(std::size_t number) {
    Page* page = pages_[number].load(std::memory_order_acquire);
    if (page) return *page;
    auto fresh = std::make_unique<Page>();
    if (pages_[number].compare_exchange_strong(page, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
    return *page;
  }

  std::array<std::atomic<Page*>, 0x10000> pages_{};
};

// Entries in memory, up to a budget. They are never moved or evicted. Thread-safe.
class MemoryStore {
 public:
  explicit MemoryStore(std::size_t budget) : budget_(budget) {}

  std::span<const std::uint8_t> find(std::uint64_t index) const;  // empty if missing
  bool has(std::uint64_t index) const { return table_.get(index) != nullptr; }

  // Space for an entry; null if the budget is used up. The caller fills it and publishes it with keep().
  std::uint8_t* reserve(std::size_t bytes);
  void keep(std::uint64_t index, const std::uint8_t* entry) { table_.set(index, entry); }

  bool full() const { return full_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kBlock = std::size_t{16} << 20;

  const std::size_t budget_;
  IndexTable<const std::uint8_t*> table_;
  std::atomic<bool> full_{false};
  std::mutex mutex_;  // guards the fields below; only some additions hold it
  std::vector<std::unique_ptr<std::uint8_t[]>> blocks_;
  std::size_t reserved_ = 0;         // total size of all blocks, in bytes
  std::size_t used_ = 0, size_ = 0;  // fill level and size of the last block
};

}  // namespace millrace
