#include "millrace/util/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(Schedule, StaysConstant) {
  const Schedule schedule({.initial = 0.3}, 10, 100);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.3);
  EXPECT_DOUBLE_EQ(schedule.rate(99), 0.3);
}

// airbench94: 0.2 -> 1 over the first 23 % of the T = 476 steps, then -> 0.07.
TEST(Schedule, TriangularFollowsAirbench) {
  const ScheduleParams params{
      .initial = 0.00146484, .schedule = "triangular", .final_factor = 0.07, .start_factor = 0.2, .peak = 0.23};
  const Schedule schedule(params, 48, 476);
  const double peak = 0.23 * 476;
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.00146484 * 0.2);
  EXPECT_NEAR(schedule.rate(50), 0.00146484 * (0.2 + 0.8 * 50 / peak), 1e-15);
  EXPECT_NEAR(schedule.rate(109), 0.00146484 * (0.2 + 0.8 * 109 / peak), 1e-15);
  EXPECT_NEAR(schedule.rate(110), 0.00146484 * (1 - 0.93 * (110 - peak) / (476 - peak)), 1e-15);
  EXPECT_NEAR(schedule.rate(475), 0.00146484 * (0.07 + 0.93 / (476 - peak)), 1e-15);
  EXPECT_NEAR(schedule.rate(476), 0.00146484 * 0.07, 1e-15);
}

TEST(Schedule, TriangularMayPeakAtEitherEnd) {
  const Schedule falling({.initial = 1, .schedule = "triangular", .start_factor = 0.5, .peak = 0}, 10, 100);
  EXPECT_DOUBLE_EQ(falling.rate(0), 1);
  EXPECT_DOUBLE_EQ(falling.rate(50), 0.5);
  const Schedule rising({.initial = 1, .schedule = "triangular", .start_factor = 0.5, .peak = 1}, 10, 100);
  EXPECT_DOUBLE_EQ(rising.rate(0), 0.5);
  EXPECT_DOUBLE_EQ(rising.rate(100), 1);
}

// MATLAB: LearnRateDropPeriod 45 and LearnRateDropFactor 0.1 of 50 epochs.
TEST(Schedule, PiecewiseDropsAfterWholePeriods) {
  const Schedule schedule({.initial = 0.1, .schedule = "piecewise", .drop_epochs = 45}, 195, 50 * 195);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(45 * 195 - 1), 0.1);
  EXPECT_NEAR(schedule.rate(45 * 195), 0.01, 1e-15);
}

TEST(Schedule, PiecewiseDropsAgainAndAgain) {
  const Schedule schedule({.initial = 1, .schedule = "piecewise", .drop_factor = 0.5, .drop_epochs = 0.1}, 70, 700);
  for (std::uint64_t drop = 0; drop < 30; ++drop) {
    EXPECT_DOUBLE_EQ(schedule.rate(7 * drop), std::pow(0.5, static_cast<double>(drop))) << drop;
    EXPECT_DOUBLE_EQ(schedule.rate(7 * drop + 6), std::pow(0.5, static_cast<double>(drop))) << drop;
  }
}

TEST(Schedule, LengthsInStepsAreThoseInEpochs) {
  const Schedule epochs({.initial = 1, .schedule = "piecewise", .drop_epochs = 0.5, .start_factor = 0.1, .warmup_epochs = 2}, 10,
                        100);
  const Schedule steps({.initial = 1, .schedule = "piecewise", .drop_steps = 5, .start_factor = 0.1, .warmup_steps = 20}, 10,
                       100);
  for (std::uint64_t step = 0; step < 100; ++step) EXPECT_DOUBLE_EQ(steps.rate(step), epochs.rate(step)) << step;
  const Schedule falling({.initial = 1, .schedule = "exponential", .drop_factor = 0.5, .drop_steps = 7}, 10, 100);
  EXPECT_NEAR(falling.rate(14), 0.25, 1e-12);
}

// As in the original training of ResNets (arXiv 1512.03385).
TEST(Schedule, DropsAtEachEpochOfAList) {
  const Schedule schedule({.initial = 0.1, .schedule = "piecewise", .drops = {30, 60, 80}}, 50, 90 * 50);
  const auto at = [&](double epoch) { return schedule.rate(static_cast<std::uint64_t>(50 * epoch)); };
  EXPECT_DOUBLE_EQ(at(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(30 * 50 - 1), 0.1);
  EXPECT_NEAR(at(30), 0.01, 1e-15);
  EXPECT_NEAR(at(59), 0.01, 1e-15);
  EXPECT_NEAR(at(60), 0.001, 1e-15);
  EXPECT_NEAR(at(80), 0.0001, 1e-15);
  EXPECT_NEAR(at(89), 0.0001, 1e-15);
}

// 782 steps per epoch: 0.1 epochs are 78.2 steps, and the drop comes with the first step after them.
TEST(Schedule, AListedDropHappensAtItsStepAlthoughEpochsDoNotDivide) {
  const Schedule schedule({.initial = 1, .schedule = "piecewise", .drops = {0.1, 1.0 / 3, 7}}, 782, 7820);
  EXPECT_DOUBLE_EQ(schedule.rate(78), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(79), 0.1);
  EXPECT_NEAR(schedule.rate(261), 0.01, 1e-15);
  EXPECT_NEAR(schedule.rate(7 * 782), 0.001, 1e-15);
  const Schedule thirds({.initial = 1, .schedule = "piecewise", .drops = {1.0 / 3}}, 3, 9);
  EXPECT_DOUBLE_EQ(thirds.rate(0), 1);
  EXPECT_DOUBLE_EQ(thirds.rate(1), 0.1);
}

// one_cycle is compared with PyTorch in tests/reference.
TEST(Schedule, CyclesTheMomentumAgainstTheRate) {
  const ScheduleParams params{.schedule = "triangular", .peak = 0.25, .cycle_momentum = true};
  const Schedule schedule(params, 10, 100);
  EXPECT_DOUBLE_EQ(schedule.momentum(0).value(), 0.95);
  EXPECT_DOUBLE_EQ(schedule.momentum(10).value(), 0.91);
  EXPECT_DOUBLE_EQ(schedule.momentum(25).value(), 0.85);
  EXPECT_DOUBLE_EQ(schedule.momentum(100).value(), 0.95);
  EXPECT_EQ(Schedule({.schedule = "triangular"}, 10, 100).momentum(0), std::nullopt);
  for (const auto& [base, max] : {std::pair{0.0, 0.9}, std::pair{0.9, 1.0}, std::pair{0.9, 0.8}}) {
    ScheduleParams wrong = params;
    wrong.base_momentum = base;
    wrong.max_momentum = max;
    EXPECT_THROW(Schedule(wrong, 10, 100), Error);
  }
}

TEST(Schedule, KeysThatSayTheSameAreRefusedByName) {
  const auto mistake = [](const ScheduleParams& params) -> std::string {
    try {
      const Schedule schedule(params, 10, 100);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_MESSAGE(mistake({.warmup_epochs = 1, .warmup_steps = 0}));
  EXPECT_MESSAGE(mistake({.schedule = "piecewise", .drop_epochs = 1, .drop_steps = 1}));
  EXPECT_MESSAGE(mistake({.schedule = "piecewise", .drop_epochs = 1, .drops = {3}}));
  EXPECT_MESSAGE(mistake({.schedule = "piecewise", .drop_steps = 1, .drops = {3}}));
  EXPECT_MESSAGE(mistake({.schedule = "piecewise", .drops = {30, 60, 60}}));
}

TEST(Schedule, AWarmUpAtARateOfZeroIsAMistake) {
  EXPECT_THROW(Schedule({.warmup_epochs = 1, .warmup = "constant"}, 10, 100), Error);
  EXPECT_NO_THROW(Schedule({.start_factor = 0.1, .warmup_epochs = 1, .warmup = "constant"}, 10, 100));
  EXPECT_NO_THROW(Schedule({.warmup_epochs = 0, .warmup = "constant"}, 10, 100)) << "there is no warm-up";
}

TEST(Schedule, ALaterTextMayGiveALengthInAnotherWay) {
  ParamSet<ScheduleParams> set;
  ScheduleParams::describe(set);
  const auto left = [&](const char* key, const char* later) {
    const Position option{std::make_shared<const std::string>("--set"), 0, 0};
    Value table(Table{{key, {}, Value(1)}, {later, option, Value(2, option)}});
    drop_overruled(set.infos(), table, [](const Position& text, const Position& other) { return text.file && !other.file; });
    return table.table().size() == 1 ? table.table()[0].key : "";
  };
  for (const auto& [key, later] :
       {std::pair{"warmup_epochs", "warmup_steps"}, std::pair{"warmup_steps", "warmup_epochs"},
        std::pair{"drop_epochs", "drop_steps"}, std::pair{"drops", "drop_epochs"}, std::pair{"drop_steps", "drops"}}) {
    EXPECT_EQ(left(key, later), later);
  }
  EXPECT_EQ(left("warmup_epochs", "drop_epochs"), "");
}

TEST(Schedule, KeysOfAnotherScheduleAreMistakes) {
  ParamSet<ScheduleParams> set;
  ScheduleParams::describe(set);
  const auto mistakes = [&](const Table& members) {
    Diagnostics errors;
    read_struct(set, Value(members), "'learning_rate'", errors);
    return errors.text();
  };
  const Member cosine("schedule", {}, Value("cosine")), start("start_factor", {}, Value(0.1));
  EXPECT_MESSAGE(mistakes({cosine, {"drop_factor", {}, Value(0.5)}}));
  EXPECT_MESSAGE(mistakes({cosine, {"drops", {}, Value(Array{Value(3.0)})}}));
  EXPECT_MESSAGE(mistakes({{"power", {}, Value(2.0)}}));
  EXPECT_MESSAGE(mistakes({cosine, start}));
  EXPECT_EQ(mistakes({cosine, start, {"warmup_steps", {}, Value(5)}, {"final_factor", {}, Value(0.1)}}), "");
  const std::string misspelt = mistakes({{"schedule", {}, Value("cosin")}, {"final_factor", {}, Value(0.1)}});
  EXPECT_EQ(misspelt.find("no effect"), std::string::npos) << misspelt;
}

TEST(Schedule, CosineStartsAtInitialAndEndsAtFinal) {
  const Schedule schedule({.initial = 0.4, .schedule = "cosine", .final_factor = 0.1}, 10, 100);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.4);
  EXPECT_NEAR(schedule.rate(50), 0.4 * 0.55, 1e-12);
  EXPECT_NEAR(schedule.rate(100), 0.04, 1e-12);
  EXPECT_NEAR(schedule.rate(25), 0.4 * (0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2), 1e-12);
}

TEST(Schedule, PolynomialHasItsPower) {
  const Schedule schedule({.initial = 2, .schedule = "polynomial", .power = 2}, 10, 100);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 2);
  EXPECT_NEAR(schedule.rate(50), 0.5, 1e-12);
  EXPECT_NEAR(schedule.rate(90), 0.02, 1e-12);
}

// Goyal et al.: eight times the rate of one worker, reached from that rate over five epochs, then dropped at epoch 30.
TEST(Schedule, WarmsUpGradually) {
  const ScheduleParams params{
      .initial = 0.8, .schedule = "piecewise", .drop_epochs = 30, .start_factor = 0.125, .warmup_epochs = 5};
  const Schedule schedule(params, 100, 9000);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.1);
  EXPECT_NEAR(schedule.rate(1) - schedule.rate(0), 0.7 / 500, 1e-15);
  EXPECT_NEAR(schedule.rate(499), 0.1 + 0.7 * 499 / 500, 1e-15);
  EXPECT_DOUBLE_EQ(schedule.rate(500), 0.8);
  EXPECT_NEAR(schedule.rate(3000), 0.08, 1e-15);
}

TEST(Schedule, CosineAndPolynomialBeginWhereWarmUpEnds) {
  for (const char* name : {"cosine", "polynomial"}) {
    const Schedule schedule({.initial = 1, .schedule = name, .warmup_epochs = 2}, 10, 100);
    EXPECT_DOUBLE_EQ(schedule.rate(0), 0) << name;
    EXPECT_DOUBLE_EQ(schedule.rate(10), 0.5) << name;
    EXPECT_DOUBLE_EQ(schedule.rate(20), 1) << name;
    EXPECT_NEAR(schedule.rate(60), 0.5, 1e-12) << name;
  }
}

TEST(Schedule, OneCycleMayPeakAtEitherEnd) {
  for (const std::uint64_t steps : {1U, 2U, 100U}) {
    const Schedule falling({.initial = 1, .schedule = "one_cycle", .start_factor = 0.5, .peak = 0}, 10, steps);
    EXPECT_NEAR(falling.rate(steps - 1), 0, 1e-12) << steps;
    const Schedule rising({.initial = 1, .schedule = "one_cycle", .start_factor = 0.5, .peak = 1}, 10, steps);
    EXPECT_DOUBLE_EQ(rising.rate(steps - 1), 1) << steps;
  }
}

TEST(Schedule, SurvivesARunThatIsShorterThanItsWarmUp) {
  const Schedule schedule({.initial = 1, .schedule = "cosine", .warmup_epochs = 5}, 10, 20);
  EXPECT_DOUBLE_EQ(schedule.rate(10), 0.2);
}

}  // namespace
}  // namespace millrace
