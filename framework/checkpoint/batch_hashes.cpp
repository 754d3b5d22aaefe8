#include "checkpoint/batch_hashes.h"

#include <algorithm>

#include "util/slot_hash.h"

namespace millrace {

SavedState::BatchHash hash_of(const Batch& batch) {
  SavedState::BatchHash hash{batch.stream_hash, 0};
  if (batch.resident_set >= 0) return hash;  // devices keep these images, so the host has no pixels
  const std::uint32_t apart = std::max(batch.global_count / 8, 4U);
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    const std::uint32_t number = batch.first_slot + slot;
    if (number % apart == 0) hash.images += hash_of_slot(batch, slot, number);
  }
  return hash;
}

void BatchHashes::add(std::uint64_t step, const SavedState::BatchHash& hash) {
  constexpr std::size_t kAhead = 64;  // batches that may be read ahead (`buffers` of batch)
  const Lock lock(mutex_);
  hashes_[step] = hash;
  while (hashes_.size() > kMax + kAhead) hashes_.erase(hashes_.begin());
}

void BatchHashes::restore(std::uint64_t done, const std::vector<SavedState::BatchHash>& hashes) {
  if (hashes.size() > done) return;  // the run has fewer steps
  for (std::size_t i = 0; i < hashes.size(); ++i) add(done - hashes.size() + i, hashes[i]);
}

std::vector<SavedState::BatchHash> BatchHashes::last(std::uint64_t done) const {
  const Lock lock(mutex_);
  std::vector<SavedState::BatchHash> found;
  while (found.size() < std::min<std::uint64_t>(kMax, done)) {
    const auto hash = hashes_.find(done - found.size() - 1);
    if (hash == hashes_.end()) break;
    found.push_back(hash->second);
  }
  std::ranges::reverse(found);
  return found;
}

}  // namespace millrace
