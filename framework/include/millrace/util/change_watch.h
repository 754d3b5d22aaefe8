// For sources that keep part of a file in memory, such as its labels, and read the rest later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "millrace/storage.h"

namespace millrace {

// Detects that a file with this many samples was replaced since it was listed, where the samples themselves do not show it.
// Checks the storage once per as many reads as the file has samples, but at least every thousand reads. Thread-safe.
class ChangeWatch {
 public:
  ChangeWatch(Storage::Object listed, std::uint64_t samples)
      : every_(std::clamp<std::uint64_t>(samples, 1, kMaxReads)), listed_(std::move(listed)) {}

  // Call at each read. `is_same()`: whether the part in memory is still right; called if the file has another version, which may
  // hold the same bytes. Throws Error(data) if it is not.
  template <class IsSame>
  void check(Storage& storage, const std::string& url, const IsSame& is_same) {
    if (++reads_ % every_ != 0) return;
    Storage::Object now = storage.stat(url);
    const std::lock_guard lock(mutex_);
    if (now.bytes == listed_.bytes && now.version == listed_.version) return;
    if (now.bytes != listed_.bytes || !is_same()) {
      fail(ErrorKind::data,
           "'{}' has changed since it was listed, so its labels may have changed too: run again with the current files", url);
    }
    listed_ = std::move(now);
  }

 private:
  static constexpr std::uint64_t kMaxReads = 1000;
  const std::uint64_t every_;
  std::atomic<std::uint64_t> reads_{0};
  std::mutex mutex_;
  Storage::Object listed_;
};

}  // namespace millrace
