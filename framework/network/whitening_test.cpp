#include "network/whitening.h"

#include <gtest/gtest.h>

#include <cmath>

#include "millrace/detail/random.h"
#include "millrace/error.h"

namespace millrace {
namespace {

TEST(Eigensystem, TakesAMatrixApartAndOrdersByValue) {
  for (const std::int64_t n : {1, 2, 5, 12, 27}) {
    Draw draw(1, {}, static_cast<std::uint64_t>(n));
    std::vector<double> matrix(static_cast<std::size_t>(n * n));
    const auto at = [n](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * n + j); };
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i; j < n; ++j) matrix[at(i, j)] = matrix[at(j, i)] = draw.normal();
    }
    const Eigensystem system = symmetric_eigensystem(matrix, n);
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) {
        EXPECT_GE(system.values[static_cast<std::size_t>(i - 1)], system.values[static_cast<std::size_t>(i)]);
      }
      for (std::int64_t j = 0; j < n; ++j) {
        double product = 0, dot = 0;  // (A v_i)_j and v_i . v_j
        for (std::int64_t k = 0; k < n; ++k) {
          product += matrix[at(j, k)] * system.vectors[at(i, k)];
          dot += system.vectors[at(i, k)] * system.vectors[at(j, k)];
        }
        EXPECT_NEAR(product, system.values[static_cast<std::size_t>(i)] * system.vectors[at(i, j)], 1e-12);
        EXPECT_NEAR(dot, i == j ? 1 : 0, 1e-13);
      }
    }
  }
}

TEST(Eigensystem, KnowsATwoByTwoMatrix) {
  const Eigensystem system = symmetric_eigensystem({2, 1, 1, 2}, 2);
  EXPECT_NEAR(system.values[0], 3, 1e-14);
  EXPECT_NEAR(system.values[1], 1, 1e-14);
  EXPECT_NEAR(system.vectors[0], std::sqrt(0.5), 1e-14);
  EXPECT_NEAR(system.vectors[1], std::sqrt(0.5), 1e-14);
}

// Images with similar neighbouring pixels and channels, like photographs.
std::vector<float> smooth_image(Draw& draw, std::int64_t channels, std::int64_t size) {
  std::vector<float> image(static_cast<std::size_t>(channels * size * size));
  float last = 0;
  for (float& value : image) value = last = 0.8F * last + static_cast<float>(draw.normal());
  for (std::size_t i = image.size() / 3; i < image.size(); ++i) image[i] += 0.7F * image[i - image.size() / 3];
  return image;
}

TEST(PatchStatistics, WhitenedPatchesHaveUnitCovariance) {
  PatchStatistics statistics({24, 3, 2, 2});
  Draw draw(7, {}, 0);
  std::vector<std::vector<float>> images;
  for (int i = 0; i < 40; ++i) images.push_back(smooth_image(draw, 3, 9));
  for (const auto& image : images) statistics.add(image, 9, 9);
  EXPECT_EQ(statistics.patches(), 40U * 64U);

  const std::vector<float> filters = statistics.filters(0.0);
  ASSERT_EQ(filters.size(), 24U * 12U);
  std::vector<double> moments(12 * 12, 0.0);
  for (const auto& image : images) {
    for (std::size_t y = 0; y < 8; ++y) {
      for (std::size_t x = 0; x < 8; ++x) {
        std::vector<double> out(12, 0.0);  // direct convolution
        for (std::size_t f = 0; f < 12; ++f) {
          for (std::size_t k = 0; k < 12; ++k) {
            const std::size_t c = k / 4, dy = k / 2 % 2, dx = k % 2;
            out[f] += static_cast<double>(filters[f * 12 + k]) * static_cast<double>(image[(c * 9 + y + dy) * 9 + x + dx]);
          }
        }
        for (std::size_t i = 0; i < 144; ++i) moments[i] += out[i / 12] * out[i % 12] / (40.0 * 64.0);
      }
    }
  }
  for (std::size_t i = 0; i < 144; ++i) EXPECT_NEAR(moments[i], i / 12 == i % 12 ? 1 : 0, 1e-4);
}

TEST(PatchStatistics, TheSecondHalfOfTheFiltersAreTheNegatives) {
  PatchStatistics statistics({24, 3, 2, 2});
  Draw draw(3, {}, 0);
  statistics.add(smooth_image(draw, 3, 12), 12, 12);
  const std::vector<float> filters = statistics.filters();
  for (std::size_t i = 0; i < 144; ++i) EXPECT_EQ(filters[i], -filters[144 + i]);
}

TEST(PatchStatistics, FlatChromaGivesFiniteFilters) {  // a JPEG file's 2x2 patches may have constant chroma: eigenvalues of zero
  PatchStatistics statistics({24, 3, 2, 2});
  std::vector<float> image(3 * 8 * 8, 0.25F);
  statistics.add(image, 8, 8);
  for (const float value : statistics.filters()) EXPECT_TRUE(std::isfinite(value));
}

TEST(PatchStatistics, RefusesWeightsThatAreNotTwiceAPatch) {
  EXPECT_THROW(PatchStatistics({23, 3, 2, 2}), Error);
  EXPECT_THROW(PatchStatistics({24, 12}), Error);
}

}  // namespace
}  // namespace millrace
