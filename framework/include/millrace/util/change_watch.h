// For sources that keep what they have read of a file, such as its labels, and read the rest later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "millrace/error.h"
#include "millrace/storage.h"

namespace millrace {

// Notices that a file of so many samples is no longer the one that was listed, where nothing in a sample tells. The storage is
// asked once for as many reads as the file has samples, and for a thousand at the latest. Thread-safe.
class ChangeWatch {
 public:
  explicit ChangeWatch(std::uint64_t samples = 1) : every_(std::clamp<std::uint64_t>(samples, 1, kMostReads)) {}
  ChangeWatch(ChangeWatch&& other) noexcept : every_(other.every_), reads_(other.reads_.load()) {}
  ChangeWatch& operator=(ChangeWatch&& other) noexcept {
    every_ = other.every_;
    reads_ = other.reads_.load();
    return *this;
  }

  // At each read. `bytes` and `version` are those that were listed. Throws Error(data) where it says otherwise now.
  void look(Storage& storage, const std::string& url, std::uint64_t bytes, const std::string& version) {
    if (++reads_ % every_ != 0) return;
    const Storage::Object now = storage.stat(url);
    if (now.bytes == bytes && now.version == version) return;
    fail(ErrorKind::data,
         "'{}' has changed since it was listed, and its labels may be others: run again with the files as they are now", url);
  }

 private:
  static constexpr std::uint64_t kMostReads = 1000;
  std::uint64_t every_;
  std::atomic<std::uint64_t> reads_{0};
};

}  // namespace millrace
