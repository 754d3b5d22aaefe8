#include "run/weight_comparison.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(WeightComparison, NamesReplicasAndParameters) {
  const std::vector<std::string> names = {"conv.weight", "conv.bias", "fc.weight"};
  EXPECT_EQ(differing_weights({{1, 2, 3}, {1, 2, 3}}, names), "");
  EXPECT_EQ(differing_weights({{1, 2, 3}, {1, 9, 3}, {1, 2, 3}, {7, 8, 3}}, names),
            "replica 1: conv.bias; replica 3: conv.weight and 1 more");
}

}  // namespace
}  // namespace millrace
