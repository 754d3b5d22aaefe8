// Counters and timers that cost a few nanoseconds, always on for every stage and edge.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace millrace {

namespace detail {
extern const bool counter_is_constant;
std::uint64_t steady_nanoseconds();
}  // namespace detail

// The processor's time-stamp counter if it is constant, else the steady clock. Ticks are converted when read, not when taken.
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
  // For several counts in a row: `line` is this thread's this_line().
  void add(int line, std::uint64_t busy_ticks, std::uint64_t packets, std::uint64_t samples, std::uint64_t waited_ticks,
           std::uint64_t bytes = 0) {
    Line& mine = lines_[static_cast<std::size_t>(line)];
    const bool shared = line == kLines - 1;
    count(mine.busy, busy_ticks, shared);
    count(mine.packets, packets, shared);
    count(mine.samples, samples, shared);
    count(mine.waited, waited_ticks, shared);
    count(mine.bytes, bytes, shared);
  }
  static int this_line();

  struct Totals {
    std::uint64_t busy_ticks = 0;  // inside process()
    std::uint64_t packets = 0;
    std::uint64_t samples = 0;
    std::uint64_t waited_ticks = 0;  // packets' time between emit and process
    std::uint64_t bytes = 0;         // of the arriving samples
  };
  Totals totals() const;

 private:
  static constexpr int kLines = 64;  // the last one is shared by all threads after the 63rd

  // A line is written only by its own thread, so a plain store is enough. The shared line needs an atomic addition.
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t value, bool shared) {
    if (shared) {
      counter.fetch_add(value, std::memory_order_relaxed);
    } else {
      counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
    }
  }

  struct alignas(64) Line {
    std::atomic<std::uint64_t> busy{0}, packets{0}, samples{0}, waited{0}, bytes{0};
  };
  std::array<Line, kLines> lines_;
};

// A number of samples that took about this long.
struct ServiceBin {
  double seconds = 0;
  std::uint64_t samples = 0;

  friend bool operator==(const ServiceBin&, const ServiceBin&) = default;
};

// The time that the given share of samples did not exceed; 0 if there are none. The bins ascend.
double quantile(std::span<const ServiceBin> bins, double share);
// The difference between `now` and `before`, an earlier reading of the same times.
std::vector<ServiceBin> since(std::span<const ServiceBin> before, std::span<const ServiceBin> now);

// A histogram of the time per sample in a stage, with four steps for each factor of two, so that quantiles are accurate to 10 %.
// Many threads add; each addition costs a few nanoseconds.
class ServiceTimes {
 public:
  ServiceTimes() : stripes_(std::make_unique<std::array<Stripe, kStripes>>()) {}

  // `samples` samples took `ticks` each. `line`: this thread's Counters::this_line().
  void add(int line, std::uint64_t ticks, std::uint64_t samples) {
    std::atomic<std::uint64_t>& bin = (*stripes_)[static_cast<std::size_t>(line) % kStripes].bins[bin_of(ticks)];
    bin.fetch_add(samples, std::memory_order_relaxed);
  }
  std::vector<ServiceBin> bins() const;  // the non-empty ones, ascending

  static constexpr std::size_t bin_of(std::uint64_t ticks) {
    if (ticks < kLeast) return 0;
    const auto power = static_cast<std::size_t>(std::bit_width(ticks)) - 1;
    const std::size_t bin = kSteps * (power - kLeastPower) + (ticks >> (power - 2)) % kSteps + 1;
    return bin < kBins ? bin : kBins - 1;
  }
  static double ticks_of(std::size_t bin);  // middle of the bin

 private:
  static constexpr std::size_t kSteps = 4, kLeastPower = 5, kLeast = 1U << kLeastPower;
  static constexpr std::size_t kBins = kSteps * 38 + 1;  // up to an hour
  static constexpr std::size_t kStripes = 8;             // shared by threads
  struct alignas(64) Stripe {
    std::array<std::atomic<std::uint64_t>, kBins> bins{};
  };
  std::unique_ptr<std::array<Stripe, kStripes>> stripes_;
};

// Follows the samples of one packet, for a stage that processes them in a row: which one is in progress, and how long each takes.
// The graph makes one around process(). One thread.
class SampleWatch {
 public:
  // `times`: null if samples take so little time that only the packet's mean is counted. `sample`: its index in the packet.
  SampleWatch(ServiceTimes* times, int line, std::uint64_t now, std::atomic<std::uint32_t>& sample)
      : times_(times), line_(line), last_(now), sample_(sample) {}
  // The watch of the stage whose process() runs on this thread; null outside of a graph.
  static SampleWatch*& current() noexcept;

  void begins(std::uint32_t sample) { sample_.store(sample, std::memory_order_relaxed); }
  void done() {
    if (times_ == nullptr) return;
    const std::uint64_t now = now_ticks();
    times_->add(line_, now > last_ ? now - last_ : 0, 1);
    last_ = now;
    ++counted_;
  }
  std::uint64_t counted() const { return counted_; }

 private:
  ServiceTimes* const times_;
  const int line_;
  std::uint64_t last_, counted_ = 0;
  std::atomic<std::uint32_t>& sample_;
};

// CPU time of this thread in nanoseconds: waiting for a lock, a disk or a processor does not count. Costs some hundred
// nanoseconds.
std::uint64_t thread_nanoseconds() noexcept;

}  // namespace millrace
