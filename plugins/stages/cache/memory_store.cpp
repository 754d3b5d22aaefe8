#include "memory_store.h"

#include <algorithm>
#include <cstring>

#include "entry.h"

namespace millrace {

std::span<const std::uint8_t> MemoryStore::find(std::uint64_t index) const {
  const std::uint8_t* entry = table_.get(index);
  if (!entry) return {};
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, entry + offsetof(EntryHeader, bytes), sizeof bytes);
  return {entry, bytes};
}

// Called only while the cache fills, so the lock costs nothing in steady state.
std::uint8_t* MemoryStore::reserve(std::size_t bytes) {
  if (full()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (bytes > size_ - used_) {
    const std::size_t block = std::min(std::max(bytes, kBlock), budget_ - reserved_);
    if (block < bytes) {
      full_ = true;
      return nullptr;
    }
    blocks_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(block));
    reserved_ += size_ = block;
    used_ = 0;
  }
  std::uint8_t* place = blocks_.back().get() + used_;
  used_ += bytes;
  return place;
}

}  // namespace millrace
