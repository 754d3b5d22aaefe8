#include "millrace/telemetry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(Telemetry, TicksGoForwardAtTheStatedRate) {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t ticks = now_ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::uint64_t passed = now_ticks() - ticks;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GT(passed, 0U);
  EXPECT_NEAR(static_cast<double>(passed) * seconds_per_tick() / seconds, 1.0, 0.5);
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
