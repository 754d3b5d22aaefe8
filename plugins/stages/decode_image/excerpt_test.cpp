#include "excerpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

ExcerptParams random_part(Range area, Range aspect) {
  ExcerptParams params;
  params.size = Size{20, 30};
  params.random_resized_crop = {area, aspect};
  return params;
}

Excerpt nth(const ExcerptRule& rule, std::uint64_t position, int height, int width) {
  SampleKey key;
  key.position = position;
  Draw draw(1, key, 2);
  return rule.excerpt(height, width, rule.draw(draw));
}

TEST(RandomResizedCrop, StaysInTheImageAndInItsRanges) {
  const ExcerptRule rule(random_part({0.08, 1}, {0.75, 1.3333}));
  double area = 0;
  int at_an_edge = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const Excerpt e = nth(rule, i, 360, 480);
    EXPECT_EQ(e.height, 20);
    EXPECT_EQ(e.width, 30);
    const Region& r = e.region;
    ASSERT_GE(r.top, 0);
    ASSERT_GE(r.left, 0);
    ASSERT_LE(r.top + r.height, 360);
    ASSERT_LE(r.left + r.width, 480);
    const double aspect = double(r.width) / r.height, share = double(r.width) * r.height / (360 * 480);
    ASSERT_GT(aspect, 0.74);
    ASSERT_LT(aspect, 1.35);
    ASSERT_GT(share, 0.079);
    area += share / 4000;
    at_an_edge += r.top + r.height == 360;
  }
  EXPECT_NEAR(area, 0.4327,
              0.012);  // from 200,000 draws by torchvision's code in Python; below 0.54, because large parts often do not fit
  EXPECT_GT(at_an_edge, 20);
}

TEST(RandomResizedCrop, TakesTheMiddleWhereNothingFits) {
  // A ribbon: no part of at least half its area is as narrow as 4 : 3.
  const ExcerptRule rule(random_part({0.5, 1}, {0.75, 4.0 / 3}));
  EXPECT_EQ(nth(rule, 0, 10, 1000).region, (Region{0, 493, 10, 13}));
  EXPECT_EQ(nth(rule, 0, 1000, 9).region, (Region{494, 0, 12, 9}));
}

TEST(RandomResizedCrop, DrawsTheSameNumberWhateverTheImage) {
  const ExcerptRule rule(random_part({0.08, 1}, {0.75, 1.3333}));
  Draw draw(1, {}, 2), same(1, {}, 2);
  rule.draw(draw);
  for (int i = 0; i < 22; ++i) same.uniform();
  EXPECT_EQ(draw.hash(), same.hash());
  Draw none(1, {}, 2);
  ExcerptParams plain;
  ExcerptRule(plain).draw(none);
  EXPECT_EQ(none.hash(), 0U);
}

TEST(ShortSide, KeepsProportions) {
  ExcerptParams params;
  params.short_side = 256;
  const ExcerptRule rule(params);
  EXPECT_EQ(rule.height(), 0);
  const Excerpt e = rule.excerpt(360, 480, {});
  EXPECT_EQ(e.height, 256);
  EXPECT_EQ(e.width, 341);
  EXPECT_TRUE(e.resampled);
  EXPECT_EQ(rule.excerpt(480, 360, {}).height, 341);
}

TEST(ShortSide, AndTheMiddleAreTheMiddleOfTheResizedImage) {
  ExcerptParams params;
  params.short_side = 256;
  params.size = Size{224, 224};
  params.crop = "centre";
  const Excerpt e = ExcerptRule(params).excerpt(360, 480, {});  // 256 x 341: 16 rows and 58 columns are cut off before it
  EXPECT_EQ(e.height, 224);
  EXPECT_NEAR(e.box.top, 16 * 360.0 / 256, 1e-3);
  EXPECT_NEAR(e.box.bottom, 240 * 360.0 / 256, 1e-3);
  EXPECT_NEAR(e.box.left, 58 * 480.0 / 341, 1e-3);
  EXPECT_NEAR(e.box.right, 282 * 480.0 / 341, 1e-3);
  EXPECT_LE(e.region.top, e.box.top - 360.0 / 256);
  EXPECT_GT(e.region.top, e.box.top - 4);
  EXPECT_GE(e.region.left + e.region.width, e.box.right + 480.0 / 341);
}

// A limit of 65,535 pixels for the longest side distorted the picture: 19,999 of these rows were treated as 255.
TEST(ShortSide, TheMiddleOfAThreadLongImageKeepsItsProportions) {
  ExcerptParams params;
  params.short_side = 256;
  params.size = Size{224, 224};
  params.crop = "centre";
  const ExcerptRule rule(params);
  const Excerpt e = rule.excerpt(1, 20'000, {});  // 256 x 5,120,000
  EXPECT_NEAR(e.box.left, (5'120'000 - 224) / 2 / 256.0, 1e-2);
  EXPECT_NEAR(e.box.right - e.box.left, 224 / 256.0, 1e-2);
  EXPECT_LE(e.region.width, 8) << "only that is decoded";
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { rule.excerpt(1, 20'000'000, {}); }).message());
}

TEST(Excerpt, TheMiddleIsThatOfTheCropStage) {
  ExcerptParams params;
  params.size = Size{4, 6};
  params.crop = "centre";
  const ExcerptRule rule(params);
  const Excerpt e = rule.excerpt(9, 10, {});
  EXPECT_EQ(e.region, (Region{2, 2, 4, 6}));
  EXPECT_EQ(rule.excerpt(7, 13, {}).region, (Region{2, 4, 4, 6}));
  EXPECT_FALSE(e.resampled);
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { rule.excerpt(3, 10, {}); }).message());
}

std::string mistake(const ExcerptParams& params) {
  return testkit::error_of(ErrorKind::usage, [&] { ExcerptRule rule(params); }).message();
}

TEST(Excerpt, NamesParametersThatDoNotGoTogether) {
  ExcerptParams params;
  params.fit = "exact";
  EXPECT_MESSAGE(mistake(params));
  params.size = Size{8, 8};
  EXPECT_EQ(mistake(params), "nothing was thrown");
  params.crop = "centre";
  EXPECT_MESSAGE(mistake(params));
  params.fit = "as-is";
  params.short_side = 7;
  EXPECT_MESSAGE(mistake(params));
  params.crop = "none";
  EXPECT_MESSAGE(mistake(params));
  params = random_part({0.5, 1.5}, {0.75, 1.3});
  EXPECT_MESSAGE(mistake(params));
  params = random_part({0.5, 0}, {0.75, 1.3});
  EXPECT_MESSAGE(mistake(params));
  params = {};
  params.filter = "bicubic";
  EXPECT_MESSAGE(mistake(params));
  params.short_side = 8;
  EXPECT_EQ(mistake(params), "nothing was thrown");
  params = {};
  params.size = Size{0, 4};
  EXPECT_MESSAGE(mistake(params));
}

}  // namespace
}  // namespace millrace
