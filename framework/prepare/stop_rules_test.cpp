#include "prepare/stop_rules.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

std::vector<Figure> figures(double loss, double accuracy = 0.5) {
  return {{"loss", loss, false, false}, {"accuracy", accuracy, true, true}};
}

TEST(FigureWatch, BetterIsWhatTheFigureSays) {
  FigureWatch accuracy({"validate", "accuracy", {}}), loss({"validate", "loss", {}});
  EXPECT_TRUE(accuracy.look("validate", figures(1, 0.5), 10));
  EXPECT_TRUE(loss.look("validate", figures(1, 0.5), 10));
  EXPECT_TRUE(accuracy.look("validate", figures(2, 0.75), 20));
  EXPECT_FALSE(loss.look("validate", figures(2, 0.75), 20));
  EXPECT_FALSE(accuracy.look("validate", figures(0.5, 0.75), 30)) << "as good is not better";
  EXPECT_TRUE(loss.look("validate", figures(0.5, 0.75), 30));
  EXPECT_EQ(accuracy.passes_since_best(), 1U);
  EXPECT_EQ(loss.passes_since_best(), 0U);
}

TEST(FigureWatch, CountsPassesOfItsGraphAlone) {
  FigureWatch watch({"validate", "loss", {}});
  watch.look("validate", figures(1), 10);
  EXPECT_FALSE(watch.look("train", figures(0), 15));
  EXPECT_FALSE(watch.look("validate", {}, 20)) << "a graph that reported nothing";
  EXPECT_EQ(watch.passes_since_best(), 0U);
  EXPECT_FALSE(watch.look("validate", figures(3), 30));
  EXPECT_EQ(watch.text(), "validate.loss has not improved for 1 pass; best 1 at step 10");
  EXPECT_FALSE(watch.look("validate", figures(2), 40));
  EXPECT_EQ(watch.text(), "validate.loss has not improved for 2 passes; best 1 at step 10");
}

TEST(FigureWatch, WhatIsNoNumberIsNeverBetter) {
  FigureWatch watch({"validate", "loss", {}});
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(watch.look("validate", figures(nan), 10));
  EXPECT_EQ(watch.text(), "validate.loss has not improved for 1 pass");
  EXPECT_TRUE(watch.look("validate", figures(9), 20));
  EXPECT_FALSE(watch.look("validate", figures(nan), 30));
  EXPECT_TRUE(watch.look("validate", figures(8), 40));
  EXPECT_FALSE(watch.look("validate", figures(-infinity), 50));
  FigureWatch other({"validate", "loss", {}});
  EXPECT_FALSE(other.look("validate", figures(infinity), 10));
  EXPECT_EQ(other.text(), "validate.loss has not improved for 1 pass");
}

TEST(FigureWatch, BetterByLessThanTheThresholdIsNotBetter) {
  FigureWatch share({"validate", "loss", {}}, {0.125, true}), amount({"validate", "accuracy", {}}, {0.125, false});
  EXPECT_TRUE(share.look("validate", figures(-4, 0.25), 10)) << "the first one";
  EXPECT_TRUE(amount.look("validate", figures(-4, 0.25), 10));
  EXPECT_FALSE(share.look("validate", figures(-4.5, 0.375), 20)) << "an eighth of 4, and no more";
  EXPECT_FALSE(amount.look("validate", figures(-4.5, 0.375), 20));
  EXPECT_EQ(share.text(), "validate.loss has not improved by 12.5 % for 1 pass; best -4 at step 10");
  EXPECT_EQ(amount.text(), "validate.accuracy has not improved by 0.125 for 1 pass; best 0.25 at step 10");
  EXPECT_TRUE(share.look("validate", figures(-4.75, 0.5), 30));
  EXPECT_TRUE(amount.look("validate", figures(-4.75, 0.5), 30));
}

class StopRulesTest : public testing::Test {
 protected:
  StopRules& rules() {
    if (!rules_) rules_.emplace(pipeline_, nullptr, requests_);
    return *rules_;
  }
  // Why the run is to stop; "": it goes on.
  std::string asked() {
    const auto request = requests_.take(RequestKind::stop, 0);
    return request ? request->by + ": " + request->text : "";
  }

  // The rates behind each of these losses. `resumes`: each pass is that of a run which goes on from a checkpoint.
  static std::vector<double> rates(const PlateauPlan& plan, const std::vector<double>& losses, bool resumes = false) {
    Pipeline pipeline;
    pipeline.plateau = plan;
    pipeline.plateau.figure = FigurePlan{"validate", "loss", {}};
    Requests requests([](ObserverEvent) {});
    std::optional<StopRules> rules(std::in_place, pipeline, nullptr, requests);
    std::vector<double> rates;
    for (const double loss : losses) {
      SavedState state;
      state.watched = rules->state();
      if (resumes) rules.emplace(pipeline, nullptr, requests).restore(read_saved_state(to_json(state)).watched);
      rules->look("validate", figures(loss), rates.size() + 1);
      rules->conclude(rates.size() + 1, true);
      rates.push_back(requests.factor(rates.size() + 1));
    }
    return rates;
  }

  Pipeline pipeline_;
  std::vector<ObserverEvent> told_;
  Requests requests_{[this](ObserverEvent event) { told_.push_back(std::move(event)); }};
  std::optional<StopRules> rules_;
};

TEST_F(StopRulesTest, PatienceEndsTheRunOnce) {
  pipeline_.stop.figure = FigurePlan{"validate", "accuracy", {}};
  pipeline_.stop.patience = 2;
  const double values[] = {0.5, 0.625, 0.6, 0.625, 0.5};
  std::vector<std::string> found;
  for (std::uint64_t pass = 0; pass < 5; ++pass) {
    rules().look("validate", figures(1, values[pass]), 100 * (pass + 1));
    EXPECT_FALSE(rules().conclude(0, true));
    found.push_back(asked());
  }
  EXPECT_EQ(found, (std::vector<std::string>{
                       "", "", "", "[stop]: validate.accuracy has not improved for 2 passes; best 0.625 at step 200", ""}));
}

// torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0) made these rates of these losses.
TEST_F(StopRulesTest, APlateauLowersTheRateFromTheNextStepOn) {
  pipeline_.plateau = {FigurePlan{"validate", "loss", {}}, 2, 0.5};
  const double losses[] = {1, 0.9, 0.95, 0.9, 0.9, 0.9, 0.8, 0.85, 0.8};
  const double expected[] = {1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
  for (std::uint64_t pass = 0; pass < 9; ++pass) {
    const std::uint64_t done = 100 * (pass + 1);
    rules().look("validate", figures(losses[pass]), done);
    const double before = requests_.factor(done - 1);
    rules().conclude(done, true);
    EXPECT_EQ(requests_.factor(done), expected[pass]) << pass;
    EXPECT_EQ(requests_.factor(done - 1), before) << "steps that are done";
  }
}

using Rates = std::vector<double>;

// torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0.1) made these rates of these losses, with
// threshold_mode="abs", and with cooldown=2 and min_lr=0.3.
TEST_F(StopRulesTest, APlateauCountsAsPyTorchDoes) {
  const Rates losses = {1, 0.9, 0.85, 0.8, 0.84, 0.79, 0.78, 0.77, 0.76, 0.75, 0.74, 0.5, 0.49};
  PlateauPlan plan{.figure = {}, .patience = 2, .factor = 0.5, .threshold = {0.1, true}};
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125}));
  plan.threshold.is_relative = false;
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.125}));
  plan.threshold.is_relative = true;
  plan.cooldown = 2;
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25}));
  plan.min_factor = 0.3;
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3}));
}

TEST_F(StopRulesTest, APlateauGoesOnInItsCooldown) {
  const PlateauPlan plan{.figure = {}, .patience = 2, .factor = 0.5, .min_factor = 0.3, .cooldown = 2};
  const Rates losses(12, 1), expected = {1, 1, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3};
  EXPECT_EQ(rates(plan, losses), expected);
  EXPECT_EQ(rates(plan, losses, true), expected);
}

TEST_F(StopRulesTest, ARateThatFallsNoMoreIsNotSaidToFall) {
  pipeline_.plateau = {.figure = FigurePlan{"validate", "loss", {}}, .patience = 1, .factor = 0.5, .min_factor = 0.5};
  for (std::uint64_t pass = 1; pass <= 5; ++pass) {
    rules().look("validate", figures(1), pass);
    rules().conclude(pass, true);
    if (pass == 3) requests_.set_factor(pass, 0.25);  // somebody asked for it
  }
  EXPECT_EQ(told_.size(), 1U);
  EXPECT_EQ(requests_.factor(2), 0.5);
  EXPECT_EQ(requests_.factor(5), 0.25) << "a lower rate is not raised";
}

TEST_F(StopRulesTest, AnImprovementBelowTheThresholdEndsTheRun) {
  pipeline_.stop.figure = FigurePlan{"validate", "accuracy", {}};
  pipeline_.stop.patience = 2;
  pipeline_.stop.threshold = {0.0625, false};
  std::vector<std::string> found;
  for (const double value : {0.5, 0.53, 0.56}) {
    rules().look("validate", figures(1, value), 10);
    rules().conclude(10, true);
    found.push_back(asked());
  }
  EXPECT_EQ(found, (std::vector<std::string>{
                       "", "", "[stop]: validate.accuracy has not improved by 0.0625 for 2 passes; best 0.5 at step 10"}));
}

TEST_F(StopRulesTest, ARunThatIsAtItsEndIsNotStopped) {
  pipeline_.stop.figure = FigurePlan{"validate", "accuracy", {}};
  pipeline_.stop.patience = 1;
  rules().look("validate", figures(1, 0.5), 10);
  rules().look("validate", figures(1, 0.25), 20);
  rules().conclude(0, false);
  EXPECT_EQ(asked(), "");
}

TEST_F(StopRulesTest, TimeEndsTheRun) {
  pipeline_.stop.max_seconds = 60;
  rules().look_at_clock(59.9);
  EXPECT_EQ(asked(), "");
  rules().look_at_clock(60.1);
  EXPECT_EQ(asked(), "[stop]: max_time is over, 1 min 00 s");
  rules().look_at_clock(60.2);
  EXPECT_EQ(asked(), "");
}

TEST_F(StopRulesTest, WeightsAreTheBestAtTheStepOfTheirPass) {
  pipeline_.run.folder = "runs";
  pipeline_.best = FigurePlan{"validate", "loss", {}};
  std::vector<bool> best;
  for (const double loss : {3.0, 4.0, 2.0}) {
    rules().look("validate", figures(loss), 10);
    best.push_back(rules().conclude(0, true));
    EXPECT_FALSE(rules().conclude(0, true)) << "a step without a pass";
  }
  EXPECT_EQ(best, (std::vector<bool>{true, false, true}));
}

}  // namespace
}  // namespace millrace
