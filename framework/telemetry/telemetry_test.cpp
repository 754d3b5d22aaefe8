#include "millrace/util/telemetry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace millrace {
namespace {

// Between the times that lie inside and outside of the ticks, however long this thread is held up between two of them.
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

}  // namespace
}  // namespace millrace
