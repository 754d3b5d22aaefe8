#include "millrace/util/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace millrace {
namespace {

constexpr Colour kWhite = {255, 255, 255}, kBlack = {0, 0, 0};

TEST(Picture, ShowsAnImageWhereItIsPut) {
  std::uint8_t grey[] = {1, 2, 3, 4}, colours[] = {10, 20, 30};
  Picture picture(4, 5, kWhite);
  picture.image(1, 2, {grey, {2, 2, 1}});
  picture.image(3, 4, {colours, {1, 1, 3}});
  EXPECT_EQ(picture.at(1, 2), (Colour{1, 1, 1}));
  EXPECT_EQ(picture.at(2, 3), (Colour{4, 4, 4}));
  EXPECT_EQ(picture.at(3, 4), (Colour{10, 20, 30}));
  EXPECT_EQ(picture.at(0, 0), kWhite);
}

TEST(Picture, LosesWhatLiesBeyondItsEdges) {
  Picture picture(3, 3, kWhite);
  picture.rectangle(-5, -5, 100, 100, kBlack);
  picture.text(-3, 1, "edge", kWhite);
  picture.text(2, -9, "edge", kWhite);
  EXPECT_EQ(picture.pixels().size(), 27U);
}

TEST(Picture, DrawsALineFromEndToEndWithoutGaps) {
  for (const auto& [y1, x1] : {std::pair{7, 3}, {2, 9}, {0, 0}, {5, 5}, {5, 0}}) {
    Picture picture(10, 10, kWhite);
    picture.line(5, 5, y1, x1, kBlack);
    EXPECT_EQ(picture.at(5, 5), kBlack);
    EXPECT_EQ(picture.at(y1, x1), kBlack);
    int dots = 0;
    for (int y = 0; y < 10; ++y) {
      for (int x = 0; x < 10; ++x) dots += picture.at(y, x) == kBlack;
    }
    EXPECT_EQ(dots, std::max(std::abs(y1 - 5), std::abs(x1 - 5)) + 1) << y1 << ", " << x1;
  }
  Picture thick(10, 10, kWhite);
  thick.line(1, 1, 1, 30, kBlack, 2);
  EXPECT_EQ(thick.at(2, 9), kBlack);
  EXPECT_EQ(thick.at(3, 5), kWhite);
}

TEST(Picture, DrawsEveryLetterDifferently) {
  std::set<std::string> seen;
  const std::string letters = "abcdefghijklmnopqrstuvwxyz0123456789 .,:-_+/()%'#&*";
  for (const char letter : letters) {
    Picture picture(7, 5, kWhite);
    picture.text(0, 0, std::string(1, letter), kBlack);
    seen.emplace(picture.pixels().begin(), picture.pixels().end());
  }
  EXPECT_EQ(seen.size(), letters.size());
}

TEST(Picture, ShortensTextToItsWidth) {
  EXPECT_EQ(text_width("abc"), 17);
  EXPECT_EQ(shortened("abc", 17), "abc");
  EXPECT_EQ(shortened("automobile", 29), "aut..");
  EXPECT_LE(text_width(shortened("automobile", 40)), 40);
}

TEST(Picture, TextOfSizeTwoHasEachDotFourTimes) {
  const auto dots = [](const Picture& picture) {
    int count = 0;
    for (int y = 0; y < picture.height(); ++y) {
      for (int x = 0; x < picture.width(); ++x) count += picture.at(y, x) == kBlack;
    }
    return count;
  };
  Picture small(7, 11, kWhite), large(14, 22, kWhite);
  small.text(0, 0, "ij", kBlack);
  large.text(0, 0, "ij", kBlack, 2);
  EXPECT_GT(dots(small), 0);
  EXPECT_EQ(dots(large), 4 * dots(small));
  for (int y = 0; y < 14; ++y) {
    for (int x = 0; x < 22; ++x) EXPECT_EQ(large.at(y, x), small.at(y / 2, x / 2)) << y << ", " << x;
  }
  EXPECT_EQ(text_width("abc", 2), 34);
  EXPECT_EQ(shortened("automobile", 58, 2), "aut..");
}

TEST(Picture, TextUpwardIsTextTurnedToTheLeft) {
  Picture across(7, 17, kWhite), upward(17, 7, kWhite);
  across.text(0, 0, "cat", kBlack);
  upward.text_upward(17, 0, "cat", kBlack);
  for (int y = 0; y < 7; ++y) {
    for (int x = 0; x < 17; ++x) EXPECT_EQ(upward.at(16 - x, y), across.at(y, x)) << y << ", " << x;
  }
}

TEST(Picture, SmallImagesAreRepeatedAndLargeOnesMadeToFit) {
  EXPECT_EQ(drawn_shape({32, 16, 3}, 96, 256), (ImageShape{96, 48, 3}));
  EXPECT_EQ(drawn_shape({130, 100, 1}, 192, 256), (ImageShape{130, 100, 1})) << "twice would be too large";
  EXPECT_EQ(drawn_shape({512, 256, 3}, 96, 256), (ImageShape{256, 128, 3}));
  const std::uint8_t pixels[] = {1, 2};
  EXPECT_EQ(drawn({pixels, {1, 2, 1}}, {2, 4, 1}), (std::vector<std::uint8_t>{1, 1, 2, 2, 1, 1, 2, 2}));
  const std::vector<std::uint8_t> grey(64, 7);
  EXPECT_EQ(drawn({grey.data(), {8, 8, 1}}, {4, 4, 1}), std::vector<std::uint8_t>(16, 7));
}

}  // namespace
}  // namespace millrace
