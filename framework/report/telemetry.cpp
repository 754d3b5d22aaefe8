#include "millrace/util/telemetry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace millrace {
namespace {

#if defined(__x86_64__)
// "Invariant TSC": a constant tick rate in all power states (Intel SDM volume 3, 17.17.1; AMD APM volume 3, CPUID 8000_0007).
bool has_invariant_counter() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
}
#else
bool has_invariant_counter() { return false; }
#endif

// One line of Counters per living thread, passed on when a thread ends. Threads that find all others taken share the last line.
constexpr int kSharedLine = 63;
std::atomic<std::uint64_t> taken_lines{0};  // process-wide, like threads

class LineOwner {
 public:
  LineOwner() {
    std::uint64_t taken = taken_lines.load(std::memory_order_acquire);
    while (true) {
      line_ = std::countr_one(taken);
      if (line_ >= kSharedLine) {
        line_ = kSharedLine;
        return;
      }
      const std::uint64_t wanted = taken | (std::uint64_t{1} << line_);
      if (taken_lines.compare_exchange_weak(taken, wanted, std::memory_order_acq_rel)) return;
    }
  }
  ~LineOwner() {
    if (line_ != kSharedLine) taken_lines.fetch_and(~(std::uint64_t{1} << line_), std::memory_order_acq_rel);
  }
  LineOwner(const LineOwner&) = delete;
  LineOwner& operator=(const LineOwner&) = delete;
  int line() const { return line_; }

 private:
  int line_ = kSharedLine;
};

}  // namespace

namespace detail {
const bool counter_is_constant = has_invariant_counter();

std::uint64_t steady_nanoseconds() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}
}  // namespace detail

// The median of several measurements: a single one may be wrong if this thread is delayed between the two clocks or the machine
// is paused.
double seconds_per_tick() {
  static const double seconds = [] {
    if (!detail::counter_is_constant) return 1e-9;
    std::array<double, 5> found{};
    for (double& each : found) {
      const std::uint64_t ticks = now_ticks(), nanoseconds = detail::steady_nanoseconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const std::uint64_t ticks_passed = now_ticks() - ticks;
      each = 1e-9 * static_cast<double>(detail::steady_nanoseconds() - nanoseconds) / static_cast<double>(ticks_passed);
    }
    std::sort(found.begin(), found.end());
    return found[found.size() / 2];
  }();
  return seconds;
}

int Counters::this_line() {
  static_assert(kLines == kSharedLine + 1);
  thread_local const LineOwner owner;
  return owner.line();
}

Counters::Totals Counters::totals() const {
  Totals totals;
  for (const Line& line : lines_) {
    totals.busy_ticks += line.busy.load(std::memory_order_relaxed);
    totals.packets += line.packets.load(std::memory_order_relaxed);
    totals.samples += line.samples.load(std::memory_order_relaxed);
    totals.waited_ticks += line.waited.load(std::memory_order_relaxed);
    totals.bytes += line.bytes.load(std::memory_order_relaxed);
  }
  return totals;
}

double ServiceTimes::ticks_of(std::size_t bin) {
  if (bin == 0) return kLeast / 2.0;
  const std::size_t power = (bin - 1) / kSteps + kLeastPower, step = (bin - 1) % kSteps;
  return std::ldexp(1 + (static_cast<double>(step) + 0.5) / kSteps, static_cast<int>(power));
}

std::vector<ServiceBin> ServiceTimes::bins() const {
  std::vector<ServiceBin> bins;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    std::uint64_t samples = 0;
    for (const Stripe& stripe : *stripes_) samples += stripe.bins[bin].load(std::memory_order_relaxed);
    if (samples > 0) bins.push_back({ticks_of(bin) * seconds_per_tick(), samples});
  }
  return bins;
}

double quantile(std::span<const ServiceBin> bins, double share) {
  std::uint64_t all = 0, below = 0;
  for (const ServiceBin& bin : bins) all += bin.samples;
  for (const ServiceBin& bin : bins) {
    below += bin.samples;
    if (static_cast<double>(below) >= share * static_cast<double>(all)) return bin.seconds;
  }
  return 0;
}

std::vector<ServiceBin> since(std::span<const ServiceBin> before, std::span<const ServiceBin> now) {
  std::vector<ServiceBin> between;
  for (ServiceBin bin : now) {
    const auto earlier = std::ranges::find(before, bin.seconds, &ServiceBin::seconds);
    if (earlier != before.end()) bin.samples -= earlier->samples;
    if (bin.samples > 0) between.push_back(bin);
  }
  return between;
}

SampleWatch*& SampleWatch::current() noexcept {
  __attribute__((tls_model("initial-exec"))) thread_local constinit SampleWatch* watch = nullptr;
  return watch;
}

std::uint64_t thread_nanoseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace millrace
