// The clock and the dice are the test's.
#include "retry.h"

#include <gtest/gtest.h>

namespace millrace::web {
namespace {

class Retries : public testing::Test {
 protected:
  Retry retry(double dice) {
    return Retry(
        policy_, [this] { return now_; }, [dice] { return dice; });
  }
  void pass(Milliseconds time) { now_ += time; }

  RetryPolicy policy_{
      .attempts = 6, .deadline = Milliseconds(10'000), .first_pause = Milliseconds(100), .longest_pause = Milliseconds(700)};
  std::chrono::steady_clock::time_point now_{};
};

TEST_F(Retries, WaitUpToTwiceAsLongEachTime) {
  Retry most = retry(0.999999);
  for (const int limit : {100, 200, 400, 700, 700}) {
    const auto pause = most.pause();
    ASSERT_TRUE(pause);
    EXPECT_GE(pause->count(), limit - 1);
    EXPECT_LE(pause->count(), limit);
  }
  EXPECT_FALSE(most.pause());
  EXPECT_EQ(most.attempts(), 6);
  EXPECT_TRUE(most.out_of_attempts());
}

TEST_F(Retries, SpreadOverTheWholePause) {
  EXPECT_EQ(retry(0).pause(), Milliseconds(0));
  EXPECT_EQ(retry(0.5).pause(), Milliseconds(50));
}

TEST_F(Retries, AddTheJitterToWhatTheServerAsksFor) {
  EXPECT_EQ(retry(0).pause(Milliseconds(3000)), Milliseconds(3000));
  EXPECT_EQ(retry(0.5).pause(Milliseconds(3000)), Milliseconds(3050));
}

TEST_F(Retries, EndWhereThePauseWouldPassTheDeadline) {
  Retry one = retry(0.5);
  pass(Milliseconds(9'960));
  EXPECT_FALSE(one.pause());
  EXPECT_FALSE(one.out_of_attempts());
  EXPECT_EQ(one.spent(), Milliseconds(9'960));
  EXPECT_FALSE(retry(0).pause(Milliseconds(10'000)));
  EXPECT_TRUE(retry(0).pause(Milliseconds(9'999)));
}

TEST_F(Retries, HaveNothingLeftAfterTheDeadline) {
  Retry one = retry(0);
  EXPECT_EQ(one.left(), Milliseconds(10'000));
  pass(Milliseconds(20'000));
  EXPECT_EQ(one.left(), Milliseconds(0));
  EXPECT_FALSE(one.pause());
}

}  // namespace
}  // namespace millrace::web
