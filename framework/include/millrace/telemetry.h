// Counting and timing at the price of a few nanoseconds: every stage and every edge, always.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace millrace {

// The processor's time-stamp counter where it is constant, else the steady clock. Ticks are converted when read, not when taken.
std::uint64_t now_ticks();
double seconds_per_tick();

// Counters of one stage or edge, written by many threads without contention: each thread has a line of its own.
class Counters {
 public:
  void add(std::uint64_t busy_ticks, std::uint64_t packets, std::uint64_t samples, std::uint64_t waited_ticks);

  struct Totals {
    std::uint64_t busy_ticks = 0;    // inside process()
    std::uint64_t packets = 0;
    std::uint64_t samples = 0;
    std::uint64_t waited_ticks = 0;  // packets' time between emit and process
  };
  Totals totals() const;

 private:
  static constexpr int kLines = 64;
  struct alignas(64) Line {
    std::atomic<std::uint64_t> busy{0}, packets{0}, samples{0}, waited{0};
  };
  std::array<Line, kLines> lines_;
};

}  // namespace millrace
