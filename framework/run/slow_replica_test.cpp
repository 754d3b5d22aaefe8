#include "run/slow_replica.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(SlowReplica, IsNamedWithTheSharesThatBalance) {
  EXPECT_MESSAGE(slow_replica_text({{"cpu:0", 10, 100}, {"cpu:1 of rank 1 on b", 20, 100}, {"cpu:2", 0, 0}}));
}

TEST(SlowReplica, NoiseNamesNone) {
  EXPECT_EQ(slow_replica_text({{"a", 10, 100}, {"b", 12, 100}}), "");
  EXPECT_EQ(slow_replica_text({{"a", 10, 50}, {"b", 10, 100}}), "") << "its share is smaller already";
  EXPECT_EQ(slow_replica_text({{"a", 0.1, 100}, {"b", 0.3, 100}}), "") << "a moment";
  EXPECT_EQ(slow_replica_text({{"a", 10, 100}}), "");
  EXPECT_EQ(slow_replica_text({{"a", 0, 0}, {"b", 0, 0}}), "") << "devices that measure nothing";
}

}  // namespace
}  // namespace millrace
