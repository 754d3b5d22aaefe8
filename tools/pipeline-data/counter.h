#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace millrace {

// "checked 1200 of 50000" on standard error during long work: on a terminal a line that renews itself, elsewhere a line now and
// then, so that short work has none. Thread-safe.
class Counter {
 public:
  Counter(std::string what, std::uint64_t of, std::chrono::milliseconds plain_pause = std::chrono::seconds(5));
  ~Counter();
  void add();

 private:
  const std::string what_;
  const std::uint64_t of_;
  const bool terminal_;
  const std::int64_t pause_;  // milliseconds, as shown_
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::int64_t> shown_;
};

}  // namespace millrace
