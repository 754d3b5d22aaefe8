#include "prepare/load_choice.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(LoadChoice, SharesFollowSpeedsInSteps) {
  EXPECT_EQ(shares_of({100, 35.2, 71}), (std::vector<double>{1, 0.35, 0.7}));
  EXPECT_EQ(shares_of({100, 0.1}), (std::vector<double>{1, 0.05})) << "a slow replica has a share all the same";
}

TEST(LoadChoice, AlikeReplicasHaveEqualShares) {
  EXPECT_TRUE(shares_of({100, 98, 101}).empty());
  EXPECT_TRUE(shares_of({}).empty());
  EXPECT_TRUE(shares_of({100, 0}).empty()) << "one was not measured";
}

TEST(LoadChoice, ACheckpointKeepsSharesOfAsManyReplicas) {
  Value run, then;
  run.set("load", Value(Array{Value(1), Value(0.5)}));
  then.set("run", run);
  EXPECT_EQ(kept_load(then, 2), (std::vector<double>{1, 0.5}));
  EXPECT_TRUE(kept_load(then, 3).empty());
  EXPECT_TRUE(kept_load(Value(), 2).empty());
}

}  // namespace
}  // namespace millrace
