// The best checkpoint after a kill or failure, and how a resumed run repairs it.
#include "checkpoint/best.h"

#include <unistd.h>

#include <fstream>

#include "checkpoint/checkpoint_fixture.h"
#include "millrace/error.h"
#include "weights/safetensors.h"

#include "testkit/messages.h"

namespace millrace::checkpoint_test {
namespace {

const std::string kFigure = "validate.loss";

// Checkpoints after steps 1 to 3. The second is the best.
class BestCheckpointTest : public CheckpointTest {
 protected:
  BestCheckpointTest() {
    for (std::uint64_t step = 1; step <= 3; ++step) {
      Checkpoint checkpoint = checkpoint_at(step);
      checkpoint.state.watched[best_key(kFigure)] = watched(step);
      write_checkpoint(folder_.path(), checkpoint);
    }
    point_to(folder_.path(), "best", checkpoint_name(2));
  }
  static SavedState::Watched watched(std::uint64_t step) {
    const std::uint64_t best = std::min<std::uint64_t>(step, 2);
    return {.best = 1.0 / static_cast<double>(best), .best_step = best, .passes = step - best};
  }
  // The best value in the run that resumes from step 3. `exported`: metadata of best.safetensors.
  SavedState::Watched mended(const std::optional<Best>& exported = {}) {
    warnings_.clear();
    FoundCheckpoint used{folder_.path() / checkpoint_name(3), checkpoint_at(3)};
    used.checkpoint.state.watched[best_key(kFigure)] = watched(3);
    const auto place = checkpoint_place(folder_.path(), nullptr);
    const auto found = mend_best(*place, used, kFigure, exported, [this](std::string text) { warnings_ += text + "\n"; });
    step_ = found ? found->state.step : 0;
    return used.checkpoint.state.watched.at(best_key(kFigure));
  }
  std::string best() const { return pointed_to(folder_.path(), "best"); }

  std::uint64_t step_ = 0;  // step of the checkpoint that mended() returned; 0 if none
};

TEST_F(BestCheckpointTest, WhatARunResumesFromIsTheNewest) {
  point_to(folder_.path(), "latest", checkpoint_name(3));
  const auto place = checkpoint_place(folder_.path(), nullptr);
  for (const std::uint64_t step : {1U, 3U, 2U}) {
    const std::string name = checkpoint_name(step);
    point_to_used(*place, {folder_.path() / name, place->read(name)}, false,
                  [](const std::string& text) { ADD_FAILURE() << text; });
    EXPECT_EQ(newest(), name);
  }
}

// A later --resume finds an automatically chosen checkpoint again, but not a named one.
TEST_F(BestCheckpointTest, APointerThatCannotBeWrittenIsAnErrorOnlyWhereACheckpointWasNamed) {
  point_to(folder_.path(), "latest", checkpoint_name(9));  // a missing checkpoint
  fs::create_directory(folder_.path() / ("latest.new-" + std::to_string(::getpid())));
  const auto place = checkpoint_place(folder_.path(), nullptr);
  const auto use = [&](std::uint64_t step, bool was_named) {
    warnings_.clear();
    const std::string name = checkpoint_name(step);
    point_to_used(*place, {folder_.path() / name, place->read(name)}, was_named,
                  [this](const std::string& text) { warnings_ += text + "\n"; });
  };
  use(3, false);
  EXPECT_MESSAGE(warnings_);
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::storage, [&] { use(1, true); }).message());
  EXPECT_EQ(pointed_to(folder_.path(), "latest"), checkpoint_name(9));
}

TEST_F(BestCheckpointTest, TheBestOneIsFoundByItsStepAndItsFigure) {
  const auto place = checkpoint_place(folder_.path(), nullptr);
  const Best known{kFigure, 2, 0.5};
  const auto found = best_checkpoint(*place, known);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, checkpoint_name(2));
  EXPECT_EQ(found->checkpoint.state.step, 2U);
  EXPECT_FALSE(best_checkpoint(*place, {kFigure, 2, 0.25})) << "of an abandoned branch";
  EXPECT_FALSE(best_checkpoint(*place, {"validate.accuracy", 2, 0.5}));
  fs::resize_file(folder_.path() / checkpoint_name(2) / "state.json", 1);
  EXPECT_FALSE(best_checkpoint(*place, known));
}

TEST_F(BestCheckpointTest, TheOneThatARunResumesFromMayBeTheBest) {
  const auto place = checkpoint_place(folder_.path(), nullptr);
  FoundCheckpoint used{folder_.path() / checkpoint_name(1), place->read(checkpoint_name(1))};
  const auto found = mend_best(*place, used, kFigure, {}, [](const std::string& text) { ADD_FAILURE() << text; });
  EXPECT_EQ(found.get(), &used.checkpoint);
  EXPECT_EQ(best(), checkpoint_name(1));
}

TEST_F(BestCheckpointTest, EarlierVersionsHadAKeyForEachOfTwoBests) {
  SavedState state;
  state.watched["checkpoint.best validate.loss"] = watched(3);
  EXPECT_EQ(best_of(state, kFigure), (Best{kFigure, 2, 0.5}));
  state.watched[best_key(kFigure)] = {.best = 0.25, .best_step = 3, .passes = 0};
  EXPECT_EQ(best_of(state, kFigure), (Best{kFigure, 3, 0.25}));
  EXPECT_FALSE(best_of(state, "validate.accuracy"));
}

TEST_F(BestCheckpointTest, OneThatIsThereStays) {
  EXPECT_EQ(mended().best_step, 2U);
  EXPECT_EQ(step_, 2U);
  EXPECT_EQ(best(), checkpoint_name(2));
  EXPECT_EQ(warnings_, "");
}

TEST_F(BestCheckpointTest, APointerThatIsLostIsMended) {
  for (const char* left : {"", "nothing\n", "step-000000001\n", "step-000000009\n"}) {
    if (*left == 0) fs::remove(folder_.path() / "best");
    if (*left != 0) std::ofstream(folder_.path() / "best") << left;
    EXPECT_EQ(mended().best, 0.5) << left;
    EXPECT_EQ(best(), checkpoint_name(2)) << left;
    EXPECT_EQ(warnings_, "") << left;
  }
  tidy_checkpoints(folder_.path(), checkpoint_name(3), 1);
  EXPECT_TRUE(fs::exists(folder_.path() / checkpoint_name(2)));
}

TEST_F(BestCheckpointTest, ALaterOneIsOfAnAbandonedBranch) {
  write_checkpoint(folder_.path(), checkpoint_at(4));
  point_to(folder_.path(), "best", checkpoint_name(4));
  EXPECT_EQ(mended().best_step, 2U);
  EXPECT_EQ(best(), checkpoint_name(2));
  EXPECT_EQ(warnings_, "");
  fs::remove_all(folder_.path() / checkpoint_name(2));
  point_to(folder_.path(), "best", checkpoint_name(4));
  EXPECT_FALSE(mended().best);
  EXPECT_MESSAGE(warnings_);
}

TEST_F(BestCheckpointTest, OneThatIsGoneIsSaidAndTheOneBeforeIsTheBest) {
  fs::remove_all(folder_.path() / checkpoint_name(2));
  const SavedState::Watched none = mended();
  EXPECT_FALSE(none.best);
  EXPECT_EQ(none.passes, 1U);
  EXPECT_MESSAGE(warnings_);
  point_to(folder_.path(), "best", checkpoint_name(1));
  EXPECT_EQ(mended().best, 1.0);
  EXPECT_EQ(step_, 1U);
  EXPECT_MESSAGE(warnings_);
}

// A run of an earlier version, whose best checkpoint belongs to another metric.
TEST_F(BestCheckpointTest, ExportedWeightsOfTheBestAreEnough) {
  fs::remove_all(folder_.path() / checkpoint_name(2));
  EXPECT_EQ(mended(Best{kFigure, 2, 0.5}).best, 0.5);
  EXPECT_EQ(step_, 0U);
  EXPECT_EQ(warnings_, "");
  EXPECT_FALSE(mended(Best{kFigure, 9, 0.25}).best) << "of another step";
}

TEST_F(BestCheckpointTest, OneThatIsDamagedIsSaid) {
  const fs::path file = folder_.path() / checkpoint_name(2) / "state.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_FALSE(mended().best);
  EXPECT_MESSAGE(warnings_);
}

TEST_F(BestCheckpointTest, ADamagedOneIsNotPointedTo) {
  fs::remove(folder_.path() / "best");
  fs::resize_file(folder_.path() / checkpoint_name(2) / "state.json", 1);
  EXPECT_FALSE(mended().best);
  EXPECT_EQ(best(), "");
  EXPECT_NE(warnings_, "");
}

class BestWeightsTest : public testing::Test {
 protected:
  static Best best(std::uint64_t step, double value) { return {kFigure, step, value}; }
  void write(const Best& weights) const {
    write_safetensors(file_.string(), {{"fc.weight", {1}, {static_cast<float>(weights.value)}}}, metadata_of(weights));
  }

  const testkit::TestFolder folder_;
  const fs::path file_ = folder_.path() / "best.safetensors";
};

TEST_F(BestWeightsTest, AFileSaysWhatItHolds) {
  const Best third = best(30, 1.0 / 3);
  write(third);
  EXPECT_EQ(best_in(file_), third);
  write_safetensors(file_.string(), {}, {{"best", "the third"}});
  EXPECT_FALSE(best_in(file_));
  write_safetensors(file_.string(), {}, {});
  EXPECT_FALSE(best_in(file_)) << "of an older program";
  std::ofstream(file_) << "no tensors";
  EXPECT_FALSE(best_in(file_));
  EXPECT_FALSE(best_in(folder_.path() / "nothing"));
}

TEST_F(BestWeightsTest, ThoseThatAreSetAsideAreKept) {
  write(best(30, 0.25));
  const fs::path first = set_aside(file_, best(30, 0.25));
  EXPECT_EQ(first, folder_.path() / "best-step-30.safetensors");
  write(best(30, 0.5));  // the best of the next branch, at the same step
  const fs::path second = set_aside(file_, best(30, 0.5));
  EXPECT_EQ(second, folder_.path() / "best-step-30.2.safetensors");
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_EQ(best_in(first), best(30, 0.25));
  write(best(30, 0.5));
  EXPECT_EQ(set_aside(file_, best(30, 0.5)), second) << "the same weights need one file";
  EXPECT_EQ(testkit::error_of([&] { set_aside(file_, best(30, 0.5)); }).kind(), ErrorKind::storage) << "nothing is there";
}

}  // namespace
}  // namespace millrace::checkpoint_test
