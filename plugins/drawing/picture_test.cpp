#include "picture.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>

namespace millrace::drawing {
namespace {

int dark_pixels(const Raster& raster) {
  int count = 0;
  for (int y = 0; y < raster.height; ++y) {
    for (int x = 0; x < raster.width; ++x) count += raster.at(y, x)[0] < 128 ? 1 : 0;
  }
  return count;
}

TEST(Picture, ShowsEachPixelOfASmallImageAsASharpSquare) {
  const std::uint8_t grey[] = {10, 20, 30, 40}, colours[] = {200, 100, 50};
  Picture picture(20, 12);
  picture.image({2, 4, 4, 4}, {grey, {2, 2, 1}});
  picture.image({10, 4, 4, 4}, {colours, {1, 1, 3}});
  const Raster drawn = picture.raster(2);
  ASSERT_EQ(drawn.width, 40);
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      const std::uint8_t level = grey[2 * (y / 4) + x / 4];
      EXPECT_EQ(drawn.at(8 + y, 4 + x), (Colour{level, level, level})) << y << ", " << x;
    }
  }
  EXPECT_EQ(drawn.at(15, 27), (Colour{200, 100, 50}));
  EXPECT_EQ(drawn.at(0, 0), kPaper);
}

TEST(Picture, LosesWhatLiesBeyondItsEdges) {
  Picture picture(10, 10);
  picture.fill({-50, -50, 500, 500}, kBlue);
  picture.text({-20, -5}, "far outside", {.size = 30});
  EXPECT_EQ(picture.raster(1).at(9, 9), kBlue);
}

TEST(Picture, LeavesAGapInALineWhereAValueIsNotFinite) {
  Picture picture(30, 10);
  const Point points[] = {{0, 5}, {6, 5}, {8, NAN}, {13, 5}, {18, NAN}, {22, 5}, {30, 5}};
  picture.line(points, {.colour = kInk, .thickness = 2});
  const Raster drawn = picture.raster(1);
  for (const int x : {3, 26}) EXPECT_EQ(drawn.at(5, x), kInk) << x;
  for (const int x : {9, 17}) EXPECT_EQ(drawn.at(5, x), kPaper) << x;
  EXPECT_NE(drawn.at(5, 13), kPaper) << "a point between two gaps is a dot";
}

// Sharp at twice the size: four times the pixels, not enlarged ones.
TEST(Picture, IsDrawnAtAnyScaleAndNotEnlarged) {
  Picture picture(120, 30);
  picture.text({4, 4}, "Gewährleistung", {.size = 14});
  const Raster once = picture.raster(1), twice = picture.raster(2);
  EXPECT_NEAR(dark_pixels(twice), 4 * dark_pixels(once), dark_pixels(twice) / 3);
  int single = 0;  // pixels that differ from a neighbour in the same square of 2 x 2
  for (int y = 0; y < twice.height; y += 2) {
    for (int x = 0; x < twice.width; x += 2) single += twice.at(y, x) != twice.at(y, x + 1) ? 1 : 0;
  }
  EXPECT_GT(single, 20);
}

TEST(Picture, WritesLowerCaseAccentsAndOtherScripts) {
  const auto drawn = [](std::string_view text) {
    Picture picture(60, 30);
    picture.text({4, 4}, text, {.size = 16});
    return picture.raster(1).pixels;
  };
  EXPECT_NE(drawn("a"), drawn("A"));
  EXPECT_NE(drawn("e"), drawn("é"));
  EXPECT_NE(drawn("α"), drawn("β"));
  EXPECT_NE(drawn("朴"), drawn("")) << "without a font a box";
}

TEST(Picture, EscapesWhatIsNoText) {
  Picture picture(200, 40);
  picture.text({4, 4}, "a\xf1 b\nc\x1b");
  ASSERT_EQ(picture.texts().size(), 1U);
  EXPECT_EQ(picture.texts()[0].text, "a\\xf1 b\\x0ac\\x1b");
}

TEST(Picture, PlacesTextWhereItIsAligned) {
  Picture picture(400, 200);
  const std::string text = "aligned";
  const double width = extent_of(text, {}).width;
  picture.text({200, 10}, text);
  picture.text({200, 40}, text, {.align = Align::centre});
  picture.text({200, 70}, text, {.align = Align::right});
  picture.text({200, 190}, text, {.upward = true});
  picture.text({300, 10}, std::string(100, 'w'), {.most = 80});
  const auto& placed = picture.texts();
  EXPECT_NEAR(placed[0].ink.left, 200, 2);
  EXPECT_NEAR(placed[1].ink.middle().x, 200, 2);
  EXPECT_NEAR(placed[2].ink.right(), 200, 2);
  EXPECT_NEAR(placed[3].ink.bottom(), 190, 2);
  EXPECT_NEAR(placed[3].ink.height, width, 3);
  EXPECT_LE(placed[4].ink.width, 80);
  for (const auto& each : placed) EXPECT_GT(each.ink.width * each.ink.height, 20);
}

TEST(Picture, IsTheSameDrawingAsSvg) {
  Picture picture(320, 200);
  picture.text({16, 12}, "Ελληνικά");
  picture.line({0, 0}, {320, 200}, {.colour = kBlue});
  const std::string svg = picture.svg();
  EXPECT_TRUE(svg.starts_with("<?xml")) << svg.substr(0, 80);
  EXPECT_NE(svg.find("viewBox=\"0 0 320 200\""), std::string::npos);
  EXPECT_NE(svg.find("<path"), std::string::npos) << "letters are outlines: a reader needs no font";
  EXPECT_EQ(svg.find("<text"), std::string::npos);
}

TEST(Picture, IsTheSameSvgWheneverItIsDrawn) {
  const auto svg = [] {
    Picture picture(60, 30);
    const std::vector<std::uint8_t> pixels(3 * 4, 90);
    picture.image({4, 4, 8, 8}, {pixels.data(), {2, 2, 3}});
    picture.fill({0, 0, 20, 20}, kBlue, 0.4);
    picture.text({4, 4}, "a");
    return picture.svg();
  };
  const std::string first = svg();
  EXPECT_NE(first.find("#image1"), std::string::npos) << first;
  EXPECT_EQ(svg(), first);
}

// A run draws its pictures every few seconds, for days.
TEST(Picture, LeavesNoMemoryBehind) {
  const auto draw = [] {
    Picture picture(300, 200);
    std::vector<Point> points;
    for (int i = 0; i < 1000; ++i) points.push_back({0.3 * i, 100.0 + i % 50});
    picture.line(points, {.colour = kBlue});
    picture.text({4, 4}, "loss 0.25");
    EXPECT_EQ(picture.svg(), picture.svg());
    EXPECT_FALSE(picture.png().empty());
  };
  const auto in_use = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  for (int i = 0; i < 3; ++i) draw();
  const std::size_t before = in_use();
  for (int i = 0; i < 20; ++i) draw();
  EXPECT_LT(in_use(), before + 100'000);
}

TEST(Colours, InkReadsOnItsGround) {
  EXPECT_EQ(ink_on(kPaper), kInk);
  EXPECT_EQ(ink_on({8, 81, 156}), kPaper);
  EXPECT_EQ(mixed(kPaper, kInk, 0), kPaper);
  EXPECT_EQ(mixed(kPaper, kInk, 1), kInk);
}

}  // namespace
}  // namespace millrace::drawing
