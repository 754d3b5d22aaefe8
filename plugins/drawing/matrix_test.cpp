#include "matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace millrace::drawing {
namespace {

constexpr int kScale = 2;

std::vector<std::string> numbered_names(std::size_t classes) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < classes; ++c) names.push_back("name_" + std::to_string(c));
  return names;
}

// The colours within a cell, without its frame; the most frequent one comes first.
std::vector<Colour> inside(const Raster& drawn, const MatrixLayout& at, std::size_t of, std::size_t as) {
  std::map<Colour, int> counts;
  const double cell = kScale * at.cell, top = kScale * at.top + static_cast<double>(of) * cell,
               left = kScale * at.left + static_cast<double>(as) * cell;
  const double frame = at.cell >= 10 ? 2 : 0;
  for (double y = top + frame; y < top + cell - frame; ++y) {
    for (double x = left + frame; x < left + cell - frame; ++x)
      ++counts[drawn.at(static_cast<int>(std::ceil(y)), static_cast<int>(std::ceil(x)))];
  }
  std::vector<Colour> colours;
  for (const auto& [colour, count] : counts) colours.push_back(colour);
  std::sort(colours.begin(), colours.end(), [&](const Colour& a, const Colour& b) { return counts[a] > counts[b]; });
  return colours;
}

TEST(Confusion, CellsAreColouredByTheirShareOfTheRow) {
  const std::vector<double> counts = {30, 10, 0, 0, 5, 0, 0, 0, 0};
  const std::vector<std::string> names = {"cat", "dog", "owl"};
  const Raster drawn = confusion(ClassMatrix(counts), names, false).raster(kScale);
  const MatrixLayout at = matrix_layout(names);
  EXPECT_EQ(at.cell, 40);
  EXPECT_EQ(inside(drawn, at, 0, 0)[0], share_colour(0.75, true));
  EXPECT_EQ(inside(drawn, at, 0, 1)[0], share_colour(0.25, false));
  EXPECT_EQ(inside(drawn, at, 0, 2), std::vector<Colour>{kPaper}) << "a count of 0 is not written";
  EXPECT_EQ(inside(drawn, at, 1, 1)[0], share_colour(1, true));
  EXPECT_GT(inside(drawn, at, 0, 1).size(), 1U) << "its numbers";
  for (std::size_t as = 0; as < 3; ++as) {
    ASSERT_EQ(inside(drawn, at, 2, as).size(), 1U);
    EXPECT_NE(inside(drawn, at, 2, as)[0], kPaper) << "no owl occurs";
  }
}

TEST(Confusion, SharesGoFromWhiteToTheFullColour) {
  EXPECT_EQ(share_colour(0, true), kPaper);
  EXPECT_EQ(share_colour(0, false), kPaper);
  int brightness = 3 * 255;
  for (const double share : {0.01, 0.1, 0.5, 1.0}) {
    const Colour right = share_colour(share, true), wrong = share_colour(share, false);
    EXPECT_LT(right[0], right[2]) << "blue";
    EXPECT_LT(wrong[2], wrong[0]) << "red";
    EXPECT_LT(right[0] + right[1] + right[2], brightness);
    brightness = right[0] + right[1] + right[2];
  }
}

TEST(Confusion, ShowsEachCellForTwoClassesAndForAThousand) {
  for (const std::size_t classes : {2, 10, 40, 100, 150, 1000}) {
    SCOPED_TRACE(classes);
    std::vector<double> counts(classes * classes);
    for (std::size_t c = 0; c < classes; ++c) {
      counts[c * classes + c] = 90'000;
      counts[c * classes + (c + 1) % classes] = 10'000;
    }
    const std::vector<std::string> names = numbered_names(classes);
    const Raster drawn = confusion(ClassMatrix(counts), names, false).raster(kScale);
    const MatrixLayout at = matrix_layout(names);
    EXPECT_EQ(at.name_every, classes == 1000 ? 9U : classes == 150 ? 2U : 1U);
    EXPECT_LT(drawn.width, 2500);
    EXPECT_LT(drawn.height, 2700);
    for (std::size_t c = 0; c < classes; c += 1 + classes / 100) {
      EXPECT_EQ(inside(drawn, at, c, c)[0], share_colour(0.9, true)) << c;
      EXPECT_EQ(inside(drawn, at, c, (c + 1) % classes)[0], share_colour(0.1, false)) << c;
      EXPECT_TRUE(classes > 60 || inside(drawn, at, c, c).size() > 1) << "its share fits";
    }
  }
}

}  // namespace
}  // namespace millrace::drawing
