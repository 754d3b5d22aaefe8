#include "watch.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace::cuda {
namespace {

using std::chrono::seconds;

class NcclWatchTest : public testing::Test {
 protected:
  static NcclWatch::Time at(int second) { return NcclWatch::Time{} + seconds(1000 + second); }
  std::string overdue(int second) { return watch_.overdue(at(second)).value_or(""); }

  NcclWatch watch_{{"a", "b", "c"}, NcclLimits{.sum = seconds(5), .arrival = seconds(20)}};
};

TEST_F(NcclWatchTest, IsIdleBeforeAndAfter) {
  EXPECT_TRUE(watch_.idle());
  watch_.submitted(7, 0);
  EXPECT_FALSE(watch_.idle());
  for (std::size_t d = 0; d < 3; ++d) watch_.finished(d, at(0));
  EXPECT_TRUE(watch_.idle());
  EXPECT_EQ(overdue(10000), "");
}

TEST_F(NcclWatchTest, WhileAllComputeNoTimeCounts) {
  watch_.submitted(7, 0);
  EXPECT_EQ(overdue(10000), "");
}

TEST_F(NcclWatchTest, ASumCountsFromTheLastArrival) {
  watch_.submitted(7, 3);
  watch_.arrived(0, at(0));
  watch_.arrived(2, at(0));
  watch_.arrived(1, at(19));
  watch_.arrived(1, at(23));  // repeated
  EXPECT_EQ(overdue(24), "");
  watch_.finished(2, at(24));
  EXPECT_MESSAGE(overdue(25));
}

TEST_F(NcclWatchTest, WhoeverDoesNotComeIsNamed) {
  watch_.submitted(7, 3);
  watch_.arrived(1, at(0));
  EXPECT_EQ(overdue(20), "");
  EXPECT_MESSAGE(overdue(21));
  watch_.arrived(0, at(21));
  watch_.arrived(2, at(21));
  EXPECT_EQ(overdue(22), "") << "late, but here";
}

TEST_F(NcclWatchTest, DevicesMayBeAtDifferentSums) {
  for (int bucket = 0; bucket < 3; ++bucket) watch_.submitted(1, bucket);
  for (std::size_t d : {0U, 1U}) {
    for (int bucket = 0; bucket < 3; ++bucket) watch_.finished(d, at(bucket));
  }
  watch_.arrived(2, at(3));
  EXPECT_MESSAGE(overdue(9));
  watch_.finished(2, at(9));
  EXPECT_EQ(overdue(9), "") << "the second sum: device c has only begun to be waited for";
  EXPECT_MESSAGE(overdue(22));
  watch_.finished(2, at(22));
  watch_.finished(2, at(22));
  EXPECT_TRUE(watch_.idle());
}

TEST_F(NcclWatchTest, AnErrorNamesDeviceAndSumAndTheFirstStays) {
  watch_.submitted(4, 0);
  watch_.submitted(4, 1);
  watch_.finished(1, at(0));
  EXPECT_FALSE(watch_.failure());
  watch_.fail(1, "unhandled system error");
  EXPECT_MESSAGE(watch_.failure().value());
  watch_.fail("something else");
  EXPECT_MESSAGE(watch_.failure().value());
}

TEST_F(NcclWatchTest, AnErrorBetweenSumsNamesTheDevice) {
  watch_.fail(2, "unhandled system error");
  EXPECT_EQ(watch_.failure(), "c: unhandled system error");
}

TEST_F(NcclWatchTest, ForgetsWhatIsDone) {
  for (std::uint64_t step = 0; step < 1000; ++step) {
    watch_.submitted(step, 0);
    for (std::size_t d = 0; d < 3; ++d) watch_.finished(d, at(static_cast<int>(step)));
  }
  watch_.submitted(1000, 0);
  watch_.arrived(0, at(2000));
  EXPECT_MESSAGE(overdue(2021));
}

}  // namespace
}  // namespace millrace::cuda
