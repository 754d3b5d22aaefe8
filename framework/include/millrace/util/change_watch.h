// For sources that keep what they have read of a file, such as its labels, and read the rest later.
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

// Notices that a file of so many samples is no longer the one that was listed, where nothing in a sample tells. The storage is
// asked once for as many reads as the file has samples, and for a thousand at the latest. Thread-safe.
class ChangeWatch {
 public:
  ChangeWatch(Storage::Object listed, std::uint64_t samples)
      : every_(std::clamp<std::uint64_t>(samples, 1, kMostReads)), listed_(std::move(listed)) {}

  // At each read. `is_same()`: whether what was kept is still right. It is asked where the file has another version, which may
  // hold the same bytes. Throws Error(data) where it is not.
  template <class IsSame>
  void look(Storage& storage, const std::string& url, const IsSame& is_same) {
    if (++reads_ % every_ != 0) return;
    Storage::Object now = storage.stat(url);
    const std::lock_guard lock(mutex_);
    if (now.bytes == listed_.bytes && now.version == listed_.version) return;
    if (now.bytes != listed_.bytes || !is_same()) {
      fail(ErrorKind::data,
           "'{}' has changed since it was listed, and its labels may be others: run again with the files as they "
           "are now",
           url);
    }
    listed_ = std::move(now);
  }

 private:
  static constexpr std::uint64_t kMostReads = 1000;
  const std::uint64_t every_;
  std::atomic<std::uint64_t> reads_{0};
  std::mutex mutex_;
  Storage::Object listed_;
};

}  // namespace millrace
