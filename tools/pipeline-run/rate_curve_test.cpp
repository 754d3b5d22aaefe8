#include "rate_curve.h"

#include <gtest/gtest.h>
#include <texts_fixture.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "rate_picture.h"

namespace millrace {
namespace {

// A hundred rates from 1e-7 to 10, as in --find-rate, until the loss explodes. `loss(rate)`: a batch's average.
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

// Nine tenths of the fall are reached at 0.05. The smoothed loss grows from 0.4 on, because half of its steps have larger rates.
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

// No lag: a step of the loss at 1e-3 appears there, and not at a rate several times as large.
TEST(RateCurve, ShowsEachLossAtItsOwnRate) {
  const RateCurve curve = curve_of([](double rate) { return rate < 1e-3 ? 2.3 : 1.3; }, 0);
  for (const RatePoint& point : curve.points()) {
    if (point.rate > 3e-4 && point.rate < 3e-3) continue;
    EXPECT_NEAR(point.smoothed, point.rate < 1e-3 ? 2.3 : 1.3, 1e-9) << point.rate;
  }
  EXPECT_NEAR(std::log10(curve.proposal()), -2.7, 0.3);
}

// The gain at the end of a wide floor is not worth a rate near the rise.
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

// Losses of single steps are extreme there: they must not affect rates far below.
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

// The lowest of a hundred losses that differ only by chance is nearly always below the first one.
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

// The picture at one pixel per unit, and the position of a rate: labels are below their rates.
struct DrawnRates {
  explicit DrawnRates(const RateCurve& curve) : picture(rate_picture(curve)), drawn(picture.raster(1)) {}

  double middle_of(const std::string& number) const {
    for (const auto& text : picture.texts()) {
      if (text.text == number) return text.ink.middle().x;
    }
    ADD_FAILURE() << "no number " << number;
    return 0;
  }
  int column(double rate) const {
    const double low = middle_of("1e-6"), high = middle_of("0.1");
    return static_cast<int>(std::lround(low + (high - low) * (std::log10(rate) + 6) / 5));
  }
  // Number of pixels in and around a column with about this colour.
  int count_near(int x, const drawing::Colour& colour) const {
    int count = 0;
    for (int y = 0; y < drawn.height; ++y) {
      for (int beside = x - 2; beside <= x + 2; ++beside) {
        const drawing::Colour found = drawn.at(y, beside);
        int distance = 0;
        for (std::size_t c = 0; c < 3; ++c) distance = std::max(distance, std::abs(found[c] - colour[c]));
        count += distance < 60 ? 1 : 0;
      }
    }
    return count;
  }

  const drawing::Picture picture;
  const drawing::Raster drawn;
};

constexpr int kLegend = 40;  // maximum pixels of a colour in the legend

TEST(RatePicture, MarksTheProposalAtItsRate) {
  const RateCurve curve = curve_of(usual, 0.02);
  const DrawnRates rates(curve);
  const int marked = rates.column(curve.proposal());
  EXPECT_GT(rates.count_near(marked, kProposalColour), 250);
  EXPECT_LT(rates.count_near(marked - 40, kProposalColour), kLegend);
  EXPECT_LT(rates.count_near(marked + 40, kProposalColour), kLegend);
  for (const double rate : {1e-6, 1e-4, 1e-2}) EXPECT_GT(rates.count_near(rates.column(rate), kCurveColour), 0) << rate;
}

// Losses far above the axis are not drawn, not even as a line along the upper edge.
TEST(RatePicture, LetsTheCurveLeaveTheFrame) {
  const auto leaves = [](double rate) { return usual(std::min(rate, 1.0)) + (rate > 0.1 ? 4 : 0); };
  const RateCurve curve = curve_of(leaves, 0.02);
  ASSERT_EQ(curve.points().size(), 100U);
  const DrawnRates rates(curve);
  EXPECT_GT(rates.count_near(rates.column(1e-4), kCurveColour), 0);
  EXPECT_EQ(rates.count_near(rates.column(1.5), kCurveColour), 0);
}

TEST(RatePicture, HasNoMarkWithoutAProposal) {
  const DrawnRates rates(curve_of(constant, 0.1));
  for (int x = 2; x < rates.drawn.width - 2; ++x) EXPECT_EQ(rates.count_near(x, kProposalColour), 0) << x;
}

TEST(RatePicture, HasNoTextOverAnother) {
  drawing::expect_apart(rate_picture(curve_of(usual, 0.02)));
  drawing::expect_apart(rate_picture(curve_of(constant, 0.1)));
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
