#include "run/slow_replica.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(SlowReplica, IsNamedWithTheSharesThatBalance) {
  EXPECT_EQ(slow_replica_text({{"cpu:0", 10, 100}, {"cpu:1 of rank 1 on b", 20, 100}, {"cpu:2", 0, 0}}),
            "replica 1 (cpu:1 of rank 1 on b) takes 2.0 times as long for its share of a step as the others, which wait for it; "
            "load = [1, 0.5, 0] in [run] would balance them");
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
