#include "prepare/pixel_counts.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr std::uint8_t kIgnored = 255;

void add(PixelCounts& counts, std::vector<std::uint8_t> pixels) {
  const int width = static_cast<int>(pixels.size());
  counts.add({pixels.data(), {1, width, 1}}, kIgnored);
}

TEST(PixelCounts, CountsIgnoredPixelsApart) {
  PixelCounts counts;
  add(counts, {0, 0, 1, 255});
  add(counts, {0, 255, 255, 255, 255, 255});
  EXPECT_EQ(counts.images(), 2U);
  EXPECT_EQ(counts.counted(), 4U);
  EXPECT_EQ(counts.ignored(), 6U);
  EXPECT_EQ(counts[0].pixels, 3U);
  EXPECT_EQ(counts[0].images, 2U);
  EXPECT_EQ(counts[1].images, 1U);
  EXPECT_EQ(counts[255].pixels, 0U);
  EXPECT_EQ(counts.classes(), 2U);
}

// Class 2 does not occur; the others cover 8/10, 2/20 and 4/20 of the images in which they occur.
TEST(PixelCounts, WeighsClassesByTheMedianFrequency) {
  PixelCounts counts;
  add(counts, {0, 0, 0, 0, 0, 0, 0, 0, 1, 3});
  add(counts, {1, 3, 3, 3, 255, 255, 255, 255, 255, 255});
  const std::vector<double> weights = counts.median_frequency_weights(4);
  ASSERT_EQ(weights.size(), 4U);
  EXPECT_DOUBLE_EQ(weights[0], 0.2 / 0.8);  // the median of 0.1, 0.2 and 0.8
  EXPECT_DOUBLE_EQ(weights[1], 0.2 / 0.1);
  EXPECT_EQ(weights[2], 0);
  EXPECT_DOUBLE_EQ(weights[3], 1);
}

TEST(PixelCounts, TheMedianOfAnEvenNumberLiesBetweenTheMiddleTwo) {
  PixelCounts counts;
  add(counts, {0, 1, 1, 1});
  EXPECT_DOUBLE_EQ(counts.median_frequency_weights(2)[0], 0.5 / 0.25);
}

TEST(PixelCounts, AddsUpAsIfItHadSeenAll) {
  PixelCounts all, one, two;
  for (PixelCounts* counts : {&all, &one}) add(*counts, {0, 0, 1, 255});
  for (PixelCounts* counts : {&all, &two}) add(*counts, {1, 2});
  one.add(two);
  EXPECT_EQ(one.median_frequency_weights(3), all.median_frequency_weights(3));
  EXPECT_EQ(one.images(), 2U);
  EXPECT_EQ(one.counted(), 5U);
  EXPECT_EQ(one.ignored(), 1U);
}

}  // namespace
}  // namespace millrace
