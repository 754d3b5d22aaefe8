#include "base/waited_time.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::milliseconds;

TEST(WaitedTime, CountsTheTimeBetweenLooks) {
  const WaitedTime::Clock::time_point begin{};
  WaitedTime waited(begin);
  EXPECT_EQ(waited.seconds(begin), 0);
  for (int i = 1; i <= 100; ++i) EXPECT_NEAR(waited.seconds(begin + i * milliseconds(50)), 0.05 * i, 1e-9);
  waited.restart(begin + milliseconds(5000));
  EXPECT_NEAR(waited.seconds(begin + milliseconds(5100)), 0.1, 1e-9);
}

TEST(WaitedTime, OfAPauseCountsNoMoreThanAMoment) {
  const WaitedTime::Clock::time_point begin{};
  WaitedTime waited(begin);
  waited.seconds(begin + milliseconds(100));
  EXPECT_NEAR(waited.seconds(begin + std::chrono::hours(8)), 0.1 + WaitedTime::kMax, 1e-9);
  EXPECT_NEAR(waited.seconds(begin + std::chrono::hours(8) + milliseconds(100)), 0.2 + WaitedTime::kMax, 1e-9);
}

}  // namespace
}  // namespace millrace
