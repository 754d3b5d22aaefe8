#include "millrace/kernels/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

constexpr std::uint32_t kPlaces = 1 << 18;

std::vector<float> deviates(std::uint32_t seed) {
  std::vector<float> made;
  for (std::uint32_t place = 0; place < kPlaces; ++place) made.push_back(normal_deviate(seed, place));
  return made;
}

TEST(Noise, IsNormal) {
  std::vector<float> values = deviates(3);
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / kPlaces, 0, 0.01);
  EXPECT_NEAR(squares / kPlaces, 1, 0.015);
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double share) { return static_cast<double>(values[static_cast<std::size_t>(share * kPlaces)]); };
  EXPECT_NEAR(quantile(0.5), 0, 0.01);
  EXPECT_NEAR(quantile(0.841345), 1, 0.015);
  EXPECT_NEAR(quantile(0.022750), -2, 0.03);
  EXPECT_NEAR(quantile(0.998650), 3, 0.1);
}

// Deviates of neighbours, and of the same position with another seed.
TEST(Noise, DeviatesAreNotCorrelated) {
  const std::vector<float> values = deviates(3), others = deviates(4);
  double neighbours = 0, seeds = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    neighbours += static_cast<double>(values[i]) * static_cast<double>(values[i - 1]);
    seeds += static_cast<double>(values[i]) * static_cast<double>(others[i]);
  }
  EXPECT_NEAR(neighbours / kPlaces, 0, 0.01);
  EXPECT_NEAR(seeds / kPlaces, 0, 0.01);
}

}  // namespace
}  // namespace millrace
