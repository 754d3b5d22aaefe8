#include "plot.h"

#include <cmath>
#include <set>

#include "counts.h"
#include "texts_fixture.h"

namespace millrace::drawing {
namespace {

TEST(Scale, HoldsEveryFiniteValueBetweenRoundEnds) {
  const std::vector<double> cases[] = {{0.31, 2.4}, {-3, 5},         {1e-9, 3e-9}, {7, 7},
                                       {0, 0},      {NAN, INFINITY}, {1e12, 3e12}, {-2, -1.5}};
  for (const auto& values : cases) {
    const Scale scale = Scale::around(values);
    ASSERT_LT(scale.low(), scale.high());
    std::set<std::string> texts;
    for (const Scale::Tick& tick : scale.ticks(8)) EXPECT_TRUE(texts.insert(tick.text).second) << tick.text << " twice";
    EXPECT_GE(texts.size(), 2U);
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      EXPECT_GE(scale.place(value), -1e-9) << value;
      EXPECT_LE(scale.place(value), 1 + 1e-9) << value;
    }
  }
}

TEST(Scale, OfSharesIsInPerCentAndEndsAtAHundred) {
  const std::vector<double> values = {0.31, 0.997};
  const Scale scale = Scale::around(values, Scale::Kind::percent);
  EXPECT_LE(scale.high(), 1);
  EXPECT_EQ(scale.ticks(6).back().text, "100 %");
}

TEST(Scale, OfRatesHasANumberForEachDecade) {
  std::string texts;
  for (const Scale::Tick& tick : Scale(1e-6, 1, Scale::Kind::logarithmic).ticks(8)) texts += tick.text + " ";
  EXPECT_EQ(texts, "1e-6 1e-5 1e-4 0.001 0.01 0.1 1 ");
  EXPECT_GE(Scale(0.011, 0.013, Scale::Kind::logarithmic).ticks(8).size(), 2U) << "within one decade";
}

TEST(Numbers, AreShort) {
  EXPECT_EQ(brief_count(9999), "9999");
  EXPECT_EQ(brief_count(12'345), "12.3k");
  EXPECT_EQ(brief_count(999'700), "1.0M");
  EXPECT_EQ(share_text(0.9996), "100 %");
  EXPECT_EQ(whole_text(1'234'567), "1,234,567");
  EXPECT_EQ(whole_text(999), "999");
}

TEST(Plot, HasNoTextOverAnotherAtAnySizeAndRange) {
  for (const double width : {120.0, 300.0, 1200.0}) {
    for (const auto& [low, high] : {std::pair{0.0, 1.0}, {-1e-7, 2e-7}, {0.0, 123'456'789.0}, {99.9999, 100.0001}}) {
      Picture picture(width, 260);
      Plot plot(picture, {10, 10, width - 20, 240}, Scale(0, 12'345), Scale(low, high),
                {"images per second, a long title", "epoch"});
      plot.legend({{"training", kBlue}, {"a graph of a long name", kOrange, true}, {"smoothed", kGreen}});
      expect_apart(picture);
    }
  }
}

TEST(Plot, DrawsNothingOutsideItsAxes) {
  Picture picture(200, 200);
  Plot plot(picture, {0, 0, 200, 200}, Scale(0, 1), Scale(0, 1), {});
  const std::vector<Point> wild = {{-5, 0.5}, {0.5, 40}, {9, -7}};
  plot.curve(wild, {.colour = kRed, .thickness = 5});
  plot.dots(wild, 9, {.colour = kRed});
  const Raster drawn = picture.raster(1);
  const Area inside = plot.inside();
  for (int y = 0; y < drawn.height; ++y) {
    for (int x = 0; x < drawn.width; ++x) {
      const bool is_inside = x >= inside.left - 1 && x <= inside.right() && y >= inside.top - 1 && y <= inside.bottom();
      EXPECT_TRUE(is_inside || drawn.at(y, x) != kRed) << y << ", " << x;
    }
  }
}

}  // namespace
}  // namespace millrace::drawing
