#include "shape_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace millrace {
namespace {

constexpr int kSize = 32;
constexpr int kClasses = static_cast<int>(kShapeNames.size());

std::vector<std::uint8_t> image(int shape, std::uint64_t number, std::uint64_t seed = 1) {
  SampleKey key;
  key.position = number;
  Draw draw(seed, key, 0);
  return draw_shape(shape, kSize, draw);
}

using RealColour = std::array<double, 3>;

RealColour mean_colour(const std::vector<std::uint8_t>& pixels) {
  RealColour mean{};
  for (std::size_t i = 0; i < pixels.size(); ++i) mean[i % 3] += pixels[i] * 3.0 / static_cast<double>(pixels.size());
  return mean;
}

TEST(ShapeImage, IsAFunctionOfItsDraws) {
  for (int shape = 0; shape < kClasses; ++shape) {
    EXPECT_EQ(image(shape, 4), image(shape, 4));
    EXPECT_NE(image(shape, 4), image(shape, 5));
    EXPECT_NE(image(shape, 4), image(shape, 4, 2));
    EXPECT_EQ(image(shape, 4).size(), 3U * kSize * kSize);
  }
}

TEST(ShapeImage, NamesAreSortedSoThatLabelsAreIndices) {
  EXPECT_EQ(std::set<std::string_view>(kShapeNames.begin(), kShapeNames.end()).size(), kShapeNames.size());
  EXPECT_TRUE(std::is_sorted(kShapeNames.begin(), kShapeNames.end()));
}

TEST(ShapeImage, CannotBeToldFromTheMeanColour) {
  // A classifier that takes the nearest mean colour of 120 images of each class.
  std::array<RealColour, kClasses> centres{};
  std::uint64_t number = 0;
  constexpr int kTraining = 120, kTest = 60;
  for (int shape = 0; shape < kClasses; ++shape) {
    for (int i = 0; i < kTraining; ++i) {
      const RealColour mean = mean_colour(image(shape, number++));
      for (std::size_t c = 0; c < 3; ++c) centres[static_cast<std::size_t>(shape)][c] += mean[c] / kTraining;
    }
  }
  int right = 0;
  for (int shape = 0; shape < kClasses; ++shape) {
    for (int i = 0; i < kTest; ++i) {
      const RealColour mean = mean_colour(image(shape, number++));
      int best = 0;
      double least = std::numeric_limits<double>::max();
      for (int other = 0; other < kClasses; ++other) {
        const RealColour& centre = centres[static_cast<std::size_t>(other)];
        double distance = 0;
        for (std::size_t c = 0; c < 3; ++c) distance += (mean[c] - centre[c]) * (mean[c] - centre[c]);
        if (distance < least) {
          least = distance;
          best = other;
        }
      }
      right += best == shape;
    }
  }
  EXPECT_LT(right, kTest * kClasses * 15 / 100) << "chance is 10 %";
}

TEST(ShapeImage, HasContrastEverywhere) {
  for (int shape = 0; shape < kClasses; ++shape) {
    for (std::uint64_t number = 0; number < 20; ++number) {
      const auto pixels = image(shape, number);
      const RealColour mean = mean_colour(pixels);
      double variance = 0;
      for (std::size_t i = 0; i < pixels.size(); ++i)
        variance += std::pow(pixels[i] - mean[i % 3], 2) / static_cast<double>(pixels.size());
      EXPECT_GT(std::sqrt(variance), 8) << kShapeNames[static_cast<std::size_t>(shape)] << ' ' << number;
    }
  }
}

}  // namespace
}  // namespace millrace
