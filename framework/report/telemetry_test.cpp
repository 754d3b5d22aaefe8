#include "millrace/util/telemetry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace millrace {
namespace {

// Bounded by the times read inside and outside the ticks, however long this thread is delayed between two of them.
TEST(Telemetry, TicksGoForwardAtTheStatedRate) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  };
  const double rate = seconds_per_tick();
  const Clock::time_point before = Clock::now();
  const std::uint64_t first = now_ticks();
  const Clock::time_point begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Clock::time_point end = Clock::now();
  const std::uint64_t last = now_ticks();
  const Clock::time_point behind = Clock::now();
  EXPECT_GT(last, first);
  const double passed = static_cast<double>(last - first) * rate;
  EXPECT_GT(passed, 0.5 * seconds(begin, end));
  EXPECT_LT(passed, 1.5 * seconds(before, behind));
}

TEST(Counters, LoseNothingWithMoreThreadsThanLines) {
  const auto counters = std::make_unique<Counters>();
  constexpr int kThreads = 100, kAdds = 2000;
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      counters->add(0, 0, 0, 0);  // takes a line
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      for (int k = 0; k < kAdds; ++k) counters->add(3, 1, 2, 5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Counters::Totals totals = counters->totals();
  EXPECT_EQ(totals.packets, std::uint64_t{kThreads} * kAdds);
  EXPECT_EQ(totals.samples, std::uint64_t{kThreads} * kAdds * 2);
  EXPECT_EQ(totals.busy_ticks, std::uint64_t{kThreads} * kAdds * 3);
  EXPECT_EQ(totals.waited_ticks, std::uint64_t{kThreads} * kAdds * 5);
}

TEST(Counters, HandALineOnWhenItsThreadEnds) {
  const auto counters = std::make_unique<Counters>();
  for (int i = 0; i < 300; ++i) std::thread([&] { counters->add(1, 1, 1, 1); }).join();
  EXPECT_EQ(counters->totals().packets, 300U);
}

TEST(ServiceTimes, SayHowManySamplesTookHowLongToATenth) {
  ServiceTimes times;
  for (int i = 0; i < 98; ++i) times.add(i, 10'000, 1);
  times.add(0, 1'000'000, 2);
  const std::vector<ServiceBin> bins = times.bins();
  EXPECT_NEAR(quantile(bins, 0.5), 10'000 * seconds_per_tick(), 1'000 * seconds_per_tick());
  EXPECT_NEAR(quantile(bins, 0.99), 1'000'000 * seconds_per_tick(), 100'000 * seconds_per_tick());
  EXPECT_EQ(quantile({}, 0.5), 0);
  times.add(0, 10'000, 5);
  ASSERT_EQ(since(bins, times.bins()).size(), 1U);
  EXPECT_EQ(since(bins, times.bins()).front().samples, 5U);
}

TEST(ServiceTimes, PutEachTimeIntoTheBinThatItsMiddleIsNextTo) {
  std::size_t last = 0;
  for (std::uint64_t ticks = 1; ticks < std::uint64_t{1} << 42U; ticks += ticks / 50 + 1) {
    const std::size_t bin = ServiceTimes::bin_of(ticks);
    EXPECT_GE(bin, last);
    last = bin;
    if (bin == 0) continue;
    EXPECT_NEAR(ServiceTimes::ticks_of(bin) / static_cast<double>(ticks), 1, 0.13) << ticks;
  }
  EXPECT_LT(ServiceTimes::bin_of(UINT64_MAX), 200U);
}

}  // namespace
}  // namespace millrace
