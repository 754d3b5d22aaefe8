// What the last batches of a run held, so that a resumed run can see that its data is still the same (--verify).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/saved_state.h"
#include "millrace/sample.h"

namespace millrace {

// The hash of a complete batch covers all its samples and draws, and what the network receives of every fourth image, or of about
// 8 of a larger global batch. So it sees a decoder that gives other pixels, and stays cheap: 8 flipped images of 224 x 224 take
// about 1.3 ms of one core. Images that devices keep are left out. Of several processes each hashes its own slots; the sums are
// the global batch's.
SavedState::BatchHash hash_of(const Batch& batch);

// The hashes of the newest steps. Thread-safe.
class BatchHashes {
 public:
  static constexpr std::size_t kMost = 64;

  void add(std::uint64_t step, const SavedState::BatchHash& hash);  // steps may come in any order, and before they are done
  void restore(std::uint64_t done, const std::vector<SavedState::BatchHash>& hashes);  // of the steps before `done`
  // Hashes of the steps before `done`, the newest last: as many as are known without a gap, at most kMost.
  std::vector<SavedState::BatchHash> last(std::uint64_t done) const;

 private:
  mutable Mutex mutex_;
  std::map<std::uint64_t, SavedState::BatchHash> hashes_ MILLRACE_GUARDED_BY(mutex_);  // by step
};

}  // namespace millrace
