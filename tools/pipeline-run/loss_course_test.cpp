#include "loss_course.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace {
namespace {

constexpr double kGuess = 2.303;  // among ten classes

LossCourse course_of(const std::vector<double>& losses, std::size_t batches = 1, std::optional<double> guess = kGuess) {
  LossCourse course(batches);
  course.set_guess(guess);
  for (const double loss : losses) course.add(loss);
  return course;
}

// From one loss to another over 200 steps, faster with larger `steepness`; single ones vary by `noise`.
std::vector<double> losses_between(double first, double last, double steepness, double noise = 0) {
  std::vector<double> losses;
  for (int step = 0; step < 200; ++step) {
    losses.push_back(last + (first - last) * std::exp(-steepness * step) + (step % 2 == 0 ? noise : -noise));
  }
  return losses;
}

TEST(LossCourse, LearnsToATenthOfTheFirstLoss) {
  EXPECT_FALSE(course_of({2, 1, 0.3}).learned());
  EXPECT_TRUE(course_of({2, 1, 0.2}).learned());
  EXPECT_FALSE(course_of({2, 0.1}, 3).learned()) << "not a whole pass";
  EXPECT_FALSE(course_of({2, 0.1, 0.1, 0.7}, 3).learned());
  EXPECT_TRUE(course_of({2, 0.3, 0.1, 0.1}, 3).learned());
}

// Dropout of 0.999 before the last layer: the first loss is huge, and another equals that of guessing.
TEST(LossCourse, AHugeFirstLossIsNoExcuse) {
  EXPECT_FALSE(course_of({29.25, 14, 2.303, 2.772}).learned());
  EXPECT_TRUE(course_of({29.25, 14, 2.772, 0.2}).learned());
  EXPECT_DOUBLE_EQ(course_of({29.25}).goal(), 0.2303);
  EXPECT_TRUE(course_of({29.25, 2.772}, 1, std::nullopt).learned()) << "of other losses the first one is all that is known";
  EXPECT_DOUBLE_EQ(course_of({0.5}).goal(), 0.05) << "weights that were trained before guess better";
}

TEST(LossCourse, SeesLossesThatHardlyMove) {
  for (const double last : {2.401, 2.399}) {  // rates of 0 and 1e-6
    const LossCourse course = course_of(losses_between(2.407, last, 0.1, 0.02));
    EXPECT_TRUE(course.hardly_moved());
    EXPECT_FALSE(course.guesses());
    EXPECT_FALSE(course.grew());
  }
  EXPECT_FALSE(course_of(losses_between(2.363, 1.675, 0.05)).hardly_moved()) << "the last layer alone learns";
  EXPECT_FALSE(course_of(losses_between(2.363, 1.675, 0.05)).guesses());
}

TEST(LossCourse, SeesTheLossOfGuessing) {
  const LossCourse decays = course_of(losses_between(2.407, 2.303, 1));
  EXPECT_TRUE(decays.guesses());
  EXPECT_FALSE(decays.hardly_moved());
  EXPECT_FALSE(course_of(losses_between(2.407, 2.303, 1), 1, std::nullopt).guesses());
  const LossCourse begins_there = course_of(losses_between(2.303, 2.303, 1));
  EXPECT_TRUE(begins_there.guesses());
  EXPECT_TRUE(begins_there.hardly_moved());
}

TEST(LossCourse, SeesLossesThatGrow) {
  std::vector<double> losses = {2.4};
  for (int step = 0; step < 19; ++step) losses.push_back(400);
  EXPECT_FALSE(course_of(losses).diverges()) << "it may come back";
  losses.push_back(400);
  EXPECT_TRUE(course_of(losses).diverges());
  EXPECT_TRUE(course_of(losses).grew());
  losses.push_back(2);
  EXPECT_FALSE(course_of(losses).diverges());
  const LossCourse slowly = course_of(losses_between(2.4, 7, 0.1));
  EXPECT_FALSE(slowly.diverges());
  EXPECT_TRUE(slowly.grew());
}

TEST(LossCourse, KnowsWhatIsNoNumber) {
  EXPECT_FALSE(LossCourse(1).broken());
  EXPECT_TRUE(course_of({std::nan("")}).broken());
  EXPECT_TRUE(course_of({2, INFINITY}).broken());
  EXPECT_FALSE(course_of({2, INFINITY}).learned());
}

}  // namespace
}  // namespace millrace
