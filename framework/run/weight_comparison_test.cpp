#include "run/weight_comparison.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(WeightComparison, NamesReplicasAndParameters) {
  const std::vector<std::string> names = {"conv.weight", "conv.bias", "fc.weight"};
  EXPECT_EQ(differing_weights({{1, 2, 3}, {1, 2, 3}}, names), "");
  EXPECT_MESSAGE(differing_weights({{1, 2, 3}, {1, 9, 3}, {1, 2, 3}, {7, 8, 3}}, names));
}

}  // namespace
}  // namespace millrace
