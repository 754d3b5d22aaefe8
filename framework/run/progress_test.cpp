#include "run/progress.h"

#include <gtest/gtest.h>

#include <thread>

namespace millrace {
namespace {

using std::chrono::milliseconds;

const auto kOpen = [](std::uint64_t) { return Progress::Gate{}; };
const auto kBoundary = [](std::uint64_t) { return Progress::Gate{.is_open = false, .is_boundary = true}; };
const auto kHeld = [](std::uint64_t) { return Progress::Gate{.is_open = false, .held_by = "page"}; };
const auto kNobody = [] { return false; };

TEST(Progress, TellsABoundaryOnce) {
  Progress progress(4);
  EXPECT_EQ(progress.done(), 4U) << "of a resumed run";
  EXPECT_TRUE(progress.step_done(5, kOpen));
  EXPECT_FALSE(progress.step_done(6, kBoundary));
  EXPECT_TRUE(progress.is_at_boundary());
  EXPECT_EQ(progress.wait(milliseconds(0), kNobody).boundary, 6U);
  EXPECT_FALSE(progress.is_at_boundary());
  EXPECT_EQ(progress.wait(milliseconds(0), kNobody).boundary, 0U);
  EXPECT_EQ(progress.done(), 6U);
}

TEST(Progress, IsHeldByAnObserverUntilItIsReleased) {
  Progress progress(0);
  EXPECT_FALSE(progress.step_done(1, kHeld));
  EXPECT_EQ(progress.wait(milliseconds(0), kNobody).held_by, "page");
  EXPECT_EQ(progress.wait(milliseconds(0), kNobody).held_by, "page");
  progress.release();
  EXPECT_EQ(progress.wait(milliseconds(0), kNobody).held_by, "");
}

TEST(Progress, WakesWhoWaitsWhenTheGraphIsDrained) {
  Progress progress(0);
  std::thread graph([&] { progress.drained(Error(ErrorKind::device, "it is gone")); });
  const Progress::News news = progress.wait(std::chrono::minutes(1), kNobody);
  graph.join();
  EXPECT_TRUE(news.is_drained);
  EXPECT_TRUE(progress.is_drained());
  ASSERT_TRUE(progress.error().has_value());
  EXPECT_EQ(progress.error()->message(), "it is gone");
}

}  // namespace
}  // namespace millrace
