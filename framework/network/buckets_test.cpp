#include "millrace/backend/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace {
namespace {

// Layers with two parameters each: `weights` and one bias of 4 elements.
Network network(const std::vector<std::int64_t>& weights) {
  Network result;
  for (const std::int64_t elements : weights) {
    Layer layer;
    for (const std::int64_t size : {elements, std::int64_t{4}}) {
      layer.parameters.push_back(static_cast<int>(result.parameters.size()));
      Parameter parameter;
      parameter.shape = {size};
      result.parameters.push_back(parameter);
    }
    result.layers.push_back(layer);
  }
  return result;
}

using Plan = std::vector<std::vector<int>>;

TEST(Buckets, HoldTheLastLayersFirst) { EXPECT_EQ(plan_buckets(network({10, 20, 30}), 1000), (Plan{{4, 5, 2, 3, 0, 1}})); }

TEST(Buckets, AreCutAtWholeParametersBelowTheTarget) {
  EXPECT_EQ(plan_buckets(network({10, 20, 30}), 34 * 4), (Plan{{4, 5}, {2, 3, 0}, {1}}));
}

TEST(Buckets, AParameterAboveTheTargetStandsAlone) {
  EXPECT_EQ(plan_buckets(network({14, 1000, 10}), 20 * 4), (Plan{{4, 5}, {2}, {3, 0}, {1}}));
}

TEST(Buckets, TheFirstIsSmallSoThatReducingStartsEarly) {
  const auto mebibyte = static_cast<std::int64_t>(kFirstBucketBytes / sizeof(float));
  const Plan plan = plan_buckets(network({mebibyte, mebibyte, mebibyte, mebibyte / 2}), std::size_t{25} << 20);
  EXPECT_EQ(plan, (Plan{{6, 7}, {4, 5, 2, 3, 0, 1}}));
}

TEST(Buckets, LeaveOutWhatIsNotTrained) {
  Network frozen = network({10, 20});
  frozen.parameters[2].trainable = false;
  EXPECT_EQ(plan_buckets(frozen, 1000), (Plan{{3, 0, 1}}));
  for (Parameter& parameter : frozen.parameters) parameter.trainable = false;
  EXPECT_TRUE(plan_buckets(frozen, 1000).empty());
}

TEST(Buckets, WhatStopsSoonerComesLastAndApart) {
  const std::vector<double> until = {3, 3, kToTheEnd, kToTheEnd, 7, 7};
  EXPECT_EQ(plan_buckets(network({10, 20, 30}), 1000, until), (Plan{{2, 3}, {4, 5}, {0, 1}}));
  std::vector<Bucket> buckets(3);
  buckets[1].until_epoch = 7;
  buckets[2].until_epoch = 2.5;
  EXPECT_EQ(filled_buckets(buckets, 0), 3U);
  EXPECT_EQ(filled_buckets(buckets, 2), 3U);
  EXPECT_EQ(filled_buckets(buckets, 3), 2U);
  EXPECT_EQ(filled_buckets(buckets, 7), 1U);
}

}  // namespace
}  // namespace millrace
