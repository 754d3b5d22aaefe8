#include "rate_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "rate_picture.h"

namespace millrace {
namespace {

// A hundred rates from 1e-7 to 10, as --find-rate takes them, until the loss explodes. `loss(rate)` is what a batch has on
// average.
template <class Loss>
RateCurve curve_of(Loss loss, double noise, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, noise);
  RateCurve curve;
  for (int step = 0; step < 100 && !curve.exploded(); ++step) {
    const double rate = 1e-7 * std::pow(10, 8.0 * step / 99);
    curve.add(rate, loss(rate) + normal(generator));
  }
  return curve;
}

// It learns from 1e-4 on, and diverges above 1.
double usual(double rate) { return 2.3 - 1.2 * std::clamp(std::log10(rate) + 4, 0.0, 3.0) / 3 + (rate > 1 ? 20 * rate : 0); }
double constant(double) { return 2.3; }

// Nine tenths of the fall are reached at 0.05. The smoothed loss grows from 0.4 on, as half of its steps have larger rates.
TEST(RateCurve, ProposesTheRateAtWhichTheFloorOfTheValleyBegins) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    const RateCurve curve = curve_of(usual, 0.05, seed);
    EXPECT_TRUE(curve.exploded()) << seed;
    EXPECT_FALSE(curve.falls_slightly()) << seed;
    EXPECT_GT(curve.proposal(), 0.02) << seed;
    EXPECT_LT(curve.proposal(), 0.15) << seed;
    EXPECT_LE(curve.proposal(), curve.lowest()->rate) << seed;
  }
}

// No lag: a step of the loss at 1e-3 is seen there, and not at a rate several times as large.
TEST(RateCurve, ShowsEachLossAtItsOwnRate) {
  const RateCurve curve = curve_of([](double rate) { return rate < 1e-3 ? 2.3 : 1.3; }, 0);
  for (const RatePoint& point : curve.points()) {
    if (point.rate > 3e-4 && point.rate < 3e-3) continue;
    EXPECT_NEAR(point.smoothed, point.rate < 1e-3 ? 2.3 : 1.3, 1e-9) << point.rate;
  }
  EXPECT_NEAR(std::log10(curve.proposal()), -2.7, 0.3);
}

// What the loss gains at the end of a wide floor is not worth a rate near the rise.
TEST(RateCurve, StaysFarBelowTheLowestPointOfAWideFloor) {
  const auto wide = [](double rate) {
    const double decade = std::log10(rate);
    return 2.3 - (decade > -5 ? 0.5 * std::min(decade + 5, 1.0) : 0) - 0.03 * std::clamp(decade + 4, 0.0, 3.0) / 3 +
           (rate > 0.1 ? 2 * (decade + 1) : 0);
  };
  for (unsigned seed = 0; seed < 100; ++seed) {
    const RateCurve curve = curve_of(wide, 0.01, seed);
    EXPECT_GT(curve.lowest()->rate, 1e-3) << seed;
    EXPECT_LT(curve.proposal(), 3e-4) << seed;
    EXPECT_GT(curve.proposal(), 5e-5) << seed;
  }
}

// Losses of one step each are beyond all numbers there: nothing of them may reach rates far below.
TEST(RateCurve, IsNotMovedByHowBadAnExplosionIs) {
  const auto until = [](double factor) {
    return [factor](double rate) { return usual(std::min(rate, 1.0)) + (rate > 0.02 ? factor * rate : 0); };
  };
  for (unsigned seed = 0; seed < 100; ++seed) {
    const RateCurve steep = curve_of(until(1e9), 0.05, seed);
    EXPECT_TRUE(steep.exploded()) << seed;
    EXPECT_GT(steep.proposal(), 1e-3) << seed;
    EXPECT_LT(steep.proposal(), 0.02) << seed << ": it diverges there";
  }
}

// The losses of ResNet-18 on batches of 32 images of CIFAR-10: 60 steps at 4.9e-4, 4.9e-3 and 4.9e-2 taught it 20, 24 and 20 %.
double shallow(double rate) {
  const double decade = std::log10(rate);
  return 2.38 - 0.08 * std::clamp((decade + 4) / 2, 0.0, 1.0) + (rate > 0.015 ? 12 * (decade + 1.82) : 0);
}

TEST(RateCurve, ProposesWhatTrainsAResidualNetwork) {
  int good = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const double rate = curve_of(shallow, 0.05, seed).proposal();
    EXPECT_LT(rate, 0.015) << seed;
    good += rate > 1e-3 ? 1 : 0;
  }
  EXPECT_GT(good, 80);
}

TEST(RateCurve, KnowsThatTheLossStillFallsWhereTheRangeEnds) {
  const RateCurve curve = curve_of([](double rate) { return 2.3 - 0.2 * std::max(std::log10(rate) + 4, 0.0); }, 0.01);
  EXPECT_TRUE(curve.falls_at_the_end());
  EXPECT_NEAR(std::log10(curve.proposal()), 0.1, 0.2);
  EXPECT_FALSE(curve_of(usual, 0.05).falls_at_the_end());
  EXPECT_FALSE(RateCurve().falls_at_the_end());
}

// The lowest of a hundred losses that differ by chance alone is below the first one nearly always.
TEST(RateCurve, ProposesNothingWhereTheLossNeverFalls) {
  int below_the_first = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const RateCurve curve = curve_of(constant, 0.2, seed);
    below_the_first += curve.lowest() != curve.points().data() ? 1 : 0;
    EXPECT_EQ(curve.proposal(), 0) << seed;
  }
  EXPECT_GT(below_the_first, 150);
  EXPECT_EQ(curve_of(constant, 0).proposal(), 0);
  EXPECT_EQ(curve_of([](double rate) { return 2.3 + rate; }, 0.01).proposal(), 0) << "it rises";
}

// Small batches: single losses differ by more than a hundred steps gain.
TEST(RateCurve, ProposesForASmallFallWhereLargerRatesDiverge) {
  const auto slight = [](double rate) { return 2.45 - (rate > 1e-3 ? 0.2 : 0) + (rate > 0.3 ? 20 * rate : 0); };
  const RateCurve curve = curve_of(slight, 0.17);
  EXPECT_GT(curve.proposal(), 1e-4);
  EXPECT_LT(curve.proposal(), 0.05);
  EXPECT_TRUE(curve.falls_slightly());
  EXPECT_FALSE(curve_of(usual, 0.05).falls_slightly());
}

// All images have the same label.
TEST(RateCurve, ProposesNothingWhereNothingIsLeftToLearn) {
  const RateCurve curve = curve_of([](double rate) { return rate < 1e-4 ? 1.5 : rate < 1 ? 1.5e-9 / rate : 0; }, 0);
  EXPECT_TRUE(curve.falls_to_nothing());
  EXPECT_EQ(curve.proposal(), 0);
  EXPECT_FALSE(curve_of(usual, 0.05).falls_to_nothing());
  EXPECT_FALSE(RateCurve().falls_to_nothing());
}

TEST(RateCurve, ProposesNothingWhereNoLossIsANumber) {
  const RateCurve curve = curve_of([](double) { return std::nan(""); }, 0);
  EXPECT_EQ(curve.points().size(), 1U);
  EXPECT_TRUE(curve.exploded());
  EXPECT_EQ(curve.proposal(), 0);
}

// How many pixels of a column have the colour.
int count_in(const Picture& picture, int x, const Colour& colour) {
  int count = 0;
  for (int y = 0; y < picture.height(); ++y) count += picture.at(y, x) == colour ? 1 : 0;
  return count;
}

constexpr Colour kProposalColour = {200, 60, 20}, kCurveColour = {20, 80, 160};

// Eight decades lie between the margins, so each rate has a column that is known.
TEST(RatePicture, MarksTheProposalAtItsRate) {
  const RateCurve curve = curve_of(usual, 0.02);
  const Picture picture = rate_picture(curve);
  const auto column = [](double rate) { return 100 + static_cast<int>(std::lround((std::log10(rate) + 7) / 8 * 830)); };
  EXPECT_GT(count_in(picture, column(curve.proposal()), kProposalColour), 400);
  EXPECT_LT(count_in(picture, column(curve.proposal()) - 40, kProposalColour), 20) << "the title alone";
  for (const double rate : {1e-6, 1e-4, 1e-2}) EXPECT_GT(count_in(picture, column(rate), kCurveColour), 0) << rate;
}

// Where the loss is far above the axis nothing is drawn, and no line along the upper edge says that it stays there.
TEST(RatePicture, LetsTheCurveLeaveTheFrame) {
  const auto leaves = [](double rate) { return usual(std::min(rate, 1.0)) + (rate > 0.1 ? 4 : 0); };
  const RateCurve curve = curve_of(leaves, 0.02);
  ASSERT_EQ(curve.points().size(), 100U);
  const Picture picture = rate_picture(curve);
  constexpr int kTop = 60, kBefore = 100 + 830 * 3 / 8, kBehind = 100 + 830 * 15 / 16;  // rates of 1e-4 and 3
  EXPECT_GT(count_in(picture, kBefore, kCurveColour), 0);
  EXPECT_EQ(count_in(picture, kBehind, kCurveColour), 0);
  bool reaches_the_edge = false;
  for (int x = 0; x < picture.width(); ++x) {
    for (int y = 0; y < kTop; ++y) EXPECT_NE(picture.at(y, x), kCurveColour) << x << ", " << y;
    reaches_the_edge = reaches_the_edge || picture.at(kTop + 2, x) == kCurveColour;
  }
  EXPECT_TRUE(reaches_the_edge);
}

TEST(RatePicture, HasNoMarkWithoutAProposal) {
  const RateCurve curve = curve_of(constant, 0.1);
  const Picture picture = rate_picture(curve);
  for (int x = 0; x < picture.width(); ++x) EXPECT_LT(count_in(picture, x, kProposalColour), 20) << "the title alone";
}

TEST(RatePicture, IsDrawnOfAnythingThatWasMeasured) {
  RateCurve one;
  one.add(1e-7, std::nan(""));
  EXPECT_GT(rate_picture(one).width(), 0);
  RateCurve two;
  two.add(1e-7, 0);
  two.add(2e-7, 0);
  EXPECT_GT(rate_picture(two).width(), 0);
}

}  // namespace
}  // namespace millrace
