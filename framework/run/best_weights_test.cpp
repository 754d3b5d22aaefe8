// Whose best weights lie in a run's folder, and what becomes of those of a course that is left.
#include "run/best_weights.h"

#include <gtest/gtest.h>

#include <fstream>

#include "millrace/error.h"
#include "network/safetensors.h"
#include "testkit/files.h"

namespace millrace::best_weights_test {
namespace {

namespace fs = std::filesystem;

const std::string kFigure = "validate.loss";

BestWeights best(std::uint64_t step, double value) { return {kFigure, step, value}; }

class BestWeightsTest : public testing::Test {
 protected:
  void write(const BestWeights& weights) const {
    write_safetensors(file_.string(), {{"fc.weight", {1}, {static_cast<float>(weights.value)}}}, metadata_of(weights));
  }

  const testkit::TestFolder folder_;
  const fs::path file_ = folder_.path() / "best.safetensors";
};

TEST_F(BestWeightsTest, AFileSaysWhatItHolds) {
  const BestWeights third = best(30, 1.0 / 3);
  write(third);
  EXPECT_EQ(best_weights_in(file_), third);
  write_safetensors(file_.string(), {}, {{"best", "the third"}});
  EXPECT_FALSE(best_weights_in(file_));
  write_safetensors(file_.string(), {}, {});
  EXPECT_FALSE(best_weights_in(file_)) << "of an older program";
  std::ofstream(file_) << "no tensors";
  EXPECT_FALSE(best_weights_in(file_));
  EXPECT_FALSE(best_weights_in(folder_.path() / "nothing"));
}

TEST_F(BestWeightsTest, AStateKnowsThoseOfItsFigure) {
  RunState state;
  EXPECT_FALSE(best_weights_of(state, kFigure));
  state.watched[best_key(kFigure)] = {.best = {}, .best_step = 0, .passes = 2};
  EXPECT_FALSE(best_weights_of(state, kFigure));
  state.watched[best_key(kFigure)] = {.best = 0.5, .best_step = 20, .passes = 2};
  EXPECT_EQ(best_weights_of(state, kFigure), best(20, 0.5));
  EXPECT_FALSE(best_weights_of(state, "validate.accuracy"));
}

// The checkpoint knows step 20 as the best.
TEST_F(BestWeightsTest, WhatIsNewerComesAgainUnlessItsCourseIsLeft) {
  const BestWeights known = best(20, 0.5), newer = best(30, 0.25), older = best(10, 1), other{"validate.accuracy", 10, 0.9};
  for (const bool leaves : {false, true}) {
    EXPECT_TRUE(belongs(known, known, leaves));
    EXPECT_TRUE(belongs({}, {}, leaves));
    EXPECT_EQ(belongs(newer, known, leaves), !leaves);
    EXPECT_EQ(belongs(newer, {}, leaves), !leaves) << "none was written before the checkpoint";
    EXPECT_EQ(belongs(best(20, 0.75), known, leaves), !leaves) << "of the same step in another course";
    EXPECT_EQ(belongs(other, known, leaves), !leaves) << "run.best was another figure";
    EXPECT_FALSE(belongs({}, known, leaves)) << "as on a machine that goes on with checkpoints of a bucket";
    EXPECT_FALSE(belongs(older, known, leaves)) << "a checkpoint knows only what was written before it";
  }
}

TEST_F(BestWeightsTest, ThoseThatAreSetAsideAreKeptAndCanBeTakenBack) {
  write(best(30, 0.25));
  const fs::path first = set_aside(file_, best(30, 0.25));
  EXPECT_EQ(first, folder_.path() / "best-step-30.safetensors");
  write(best(30, 0.5));  // the best of the next course, at the same step
  const fs::path second = set_aside(file_, best(30, 0.5));
  EXPECT_EQ(second, folder_.path() / "best-step-30.2.safetensors");
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_FALSE(take_back(file_, best(30, 1)));
  EXPECT_TRUE(take_back(file_, best(30, 0.5)));
  EXPECT_EQ(best_weights_in(file_), best(30, 0.5));
  EXPECT_EQ(best_weights_in(first), best(30, 0.25));
  EXPECT_FALSE(fs::exists(second));
  EXPECT_EQ(set_aside(file_, best(30, 0.5)), second);
  EXPECT_EQ(testkit::error_of([&] { set_aside(file_, best(30, 0.5)); }).kind(), ErrorKind::storage) << "nothing is there";
}

}  // namespace
}  // namespace millrace::best_weights_test
