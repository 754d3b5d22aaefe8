#include "matrix_picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace millrace {
namespace {

constexpr Colour kBlank = {255, 255, 255};

std::vector<std::string> numbered_names(std::size_t classes) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < classes; ++c) names.push_back("name_" + std::to_string(c));
  return names;
}

// The corner of a cell: no number lies there.
Colour cell_of(const Picture& picture, const MatrixLayout& at, int of, int as) {
  return picture.at(at.top + of * at.cell, at.left + as * at.cell);
}

// The colours within a cell.
std::set<Colour> inside(const Picture& picture, const MatrixLayout& at, int of, int as) {
  std::set<Colour> found;
  for (int y = 0; y < at.cell - 1; ++y) {
    for (int x = 0; x < at.cell - 1; ++x) found.insert(picture.at(at.top + of * at.cell + y, at.left + as * at.cell + x));
  }
  return found;
}

TEST(MatrixPicture, CellsAreColouredByTheirShareOfTheRow) {
  const std::vector<double> counts = {30, 10, 0, 0, 5, 0, 0, 0, 0};
  const std::vector<std::string> names = {"cat", "dog", "owl"};
  const Picture picture = matrix_picture(ClassMatrix(counts), names);
  const MatrixLayout at = matrix_layout(names);
  EXPECT_EQ(at.cell, 80);
  EXPECT_EQ(cell_of(picture, at, 0, 0), share_colour(0.75, true));
  EXPECT_EQ(cell_of(picture, at, 0, 1), share_colour(0.25, false));
  EXPECT_EQ(cell_of(picture, at, 0, 2), kBlank);
  EXPECT_EQ(cell_of(picture, at, 1, 1), share_colour(1, true));
  EXPECT_EQ(inside(picture, at, 0, 2).size(), 1U) << "a count of 0 is not written";
  EXPECT_EQ(inside(picture, at, 0, 1).size(), 2U) << "its ground and its numbers";
  for (int as = 0; as < 3; ++as) {
    EXPECT_EQ(inside(picture, at, 2, as).size(), 1U);
    EXPECT_NE(cell_of(picture, at, 2, as), kBlank) << "no owl occurs";
  }
  EXPECT_GE(picture.width(), at.left + 3 * at.cell);
  EXPECT_GE(picture.height(), at.top + 3 * at.cell);
}

TEST(MatrixPicture, SharesGoFromWhiteToTheFullColour) {
  EXPECT_EQ(share_colour(0, true), kBlank);
  EXPECT_EQ(share_colour(0, false), kBlank);
  int brightness = 3 * 255;
  for (const double share : {0.01, 0.1, 0.5, 1.0}) {
    const Colour right = share_colour(share, true), wrong = share_colour(share, false);
    EXPECT_LT(right[0], right[2]) << "blue";
    EXPECT_LT(wrong[2], wrong[0]) << "red";
    EXPECT_LT(right[0] + right[1] + right[2], brightness);
    brightness = right[0] + right[1] + right[2];
  }
}

TEST(MatrixPicture, IsLegibleForTwoClassesAndForAHundred) {
  for (const std::size_t classes : {std::size_t{2}, std::size_t{10}, std::size_t{40}, std::size_t{100}}) {
    SCOPED_TRACE(classes);
    std::vector<double> counts(classes * classes);
    for (std::size_t c = 0; c < classes; ++c) {
      counts[c * classes + c] = 90'000;
      counts[c * classes + (c + 1) % classes] = 10'000;
    }
    const std::vector<std::string> names = numbered_names(classes);
    const Picture picture = matrix_picture(ClassMatrix(counts), names);
    const MatrixLayout at = matrix_layout(names);
    EXPECT_EQ(at.name_size, 2);
    EXPECT_LT(picture.width(), 2500);
    EXPECT_LT(picture.height(), 2500);
    for (int c = 0; c < static_cast<int>(classes); ++c) {
      const int next = (c + 1) % static_cast<int>(classes);
      EXPECT_EQ(cell_of(picture, at, c, c), share_colour(0.9, true));
      EXPECT_EQ(cell_of(picture, at, c, next), share_colour(0.1, false));
      EXPECT_EQ(inside(picture, at, c, c).size(), 2U) << "its share fits";
    }
  }
}

TEST(MatrixPicture, LeavesOutNamesAndNumbersThatDoNotFit) {
  constexpr std::size_t kClasses = 1000;
  std::vector<double> counts(kClasses * kClasses);
  for (std::size_t c = 0; c < kClasses; ++c) counts[c * kClasses + c] = 50;
  const std::vector<std::string> names = numbered_names(kClasses);
  const Picture picture = matrix_picture(ClassMatrix(counts), names);
  const MatrixLayout at = matrix_layout(names);
  EXPECT_EQ(at.cell, 1);
  EXPECT_EQ(at.name_size, 0);
  EXPECT_EQ(picture.at(at.top + 7, at.left + 7), share_colour(1, true));
  EXPECT_EQ(picture.at(at.top + 7, at.left + 8), kBlank);
  EXPECT_EQ(matrix_layout(numbered_names(200)).name_size, 1);
}

TEST(MatrixPicture, LongNamesAreShortened) {
  const std::vector<double> counts = {1, 0, 0, 1};
  const std::vector<std::string> names = {std::string(500, 'x'), ""};
  EXPECT_LT(matrix_picture(ClassMatrix(counts), names).width(), 1000);
}

}  // namespace
}  // namespace millrace
