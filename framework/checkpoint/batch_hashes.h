// Hashes of a run's last batches, so that a resumed run can verify that its data are unchanged (--verify).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "checkpoint/saved_state.h"
#include "millrace/sample.h"
#include "util/mutex.h"

namespace millrace {

// Hashes a complete batch: all its samples and draws, and the pixels that the network receives for every fourth image, or for
// about 8 images of a larger global batch. This detects a changed decoder cheaply: 8 flipped images of 224 x 224 take about 1.3
// ms of one core. Images that devices keep are left out. Each process hashes its own slots; the sums are the global batch's.
SavedState::BatchHash hash_of(const Batch& batch);

// The hashes of the newest steps. Thread-safe.
class BatchHashes {
 public:
  static constexpr std::size_t kMax = 64;

  void add(std::uint64_t step, const SavedState::BatchHash& hash);  // in any order, and before the step is done
  void restore(std::uint64_t done, const std::vector<SavedState::BatchHash>& hashes);  // hashes of steps before `done`
  // Hashes of the steps before `done`, the newest last: the longest sequence without a gap, at most kMax.
  std::vector<SavedState::BatchHash> last(std::uint64_t done) const;

 private:
  mutable Mutex mutex_;
  std::map<std::uint64_t, SavedState::BatchHash> hashes_ MILLRACE_GUARDED_BY(mutex_);  // by step
};

}  // namespace millrace
