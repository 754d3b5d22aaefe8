// Counting and timing at the price of a few nanoseconds: every stage and every edge, always.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace millrace {

namespace detail {
extern const bool counter_is_constant;
std::uint64_t steady_nanoseconds();
}  // namespace detail

// The processor's time-stamp counter where it is constant, else the steady clock. Ticks are converted when read, not when taken.
inline std::uint64_t now_ticks() {
#if defined(__x86_64__)
  if (detail::counter_is_constant) return __builtin_ia32_rdtsc();
#endif
  return detail::steady_nanoseconds();
}
double seconds_per_tick();

// Counters of one stage or edge. Many threads write them without contention: each thread has its own cache line.
class Counters {
 public:
  void add(std::uint64_t busy_ticks, std::uint64_t packets, std::uint64_t samples, std::uint64_t waited_ticks) {
    add(this_line(), busy_ticks, packets, samples, waited_ticks);
  }
  // For counting several times in a row: `line` is this thread's this_line().
  void add(int line, std::uint64_t busy_ticks, std::uint64_t packets, std::uint64_t samples, std::uint64_t waited_ticks) {
    Line& mine = lines_[static_cast<std::size_t>(line)];
    const bool shared = line == kLines - 1;
    count(mine.busy, busy_ticks, shared);
    count(mine.packets, packets, shared);
    count(mine.samples, samples, shared);
    count(mine.waited, waited_ticks, shared);
  }
  static int this_line();

  struct Totals {
    std::uint64_t busy_ticks = 0;  // inside process()
    std::uint64_t packets = 0;
    std::uint64_t samples = 0;
    std::uint64_t waited_ticks = 0;  // packets' time between emit and process
  };
  Totals totals() const;

 private:
  static constexpr int kLines = 64;  // the last one is shared by all threads beyond the 63rd

  // Only its own thread writes a line, so a plain store is enough. The shared line needs an atomic addition.
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t value, bool shared) {
    if (shared) {
      counter.fetch_add(value, std::memory_order_relaxed);
    } else {
      counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
    }
  }

  struct alignas(64) Line {
    std::atomic<std::uint64_t> busy{0}, packets{0}, samples{0}, waited{0};
  };
  std::array<Line, kLines> lines_;
};

}  // namespace millrace
