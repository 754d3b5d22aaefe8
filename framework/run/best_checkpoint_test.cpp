// What a kill or a fault has left of the best checkpoint, and what a run that goes on makes of it.
#include "run/best_checkpoint.h"

#include <unistd.h>

#include <fstream>

#include "millrace/error.h"
#include "run/checkpoint_fixture.h"

namespace millrace::checkpoint_test {
namespace {

const std::string kKey = "checkpoint.best validate.loss";

// Checkpoints after steps 1 to 3, of which the first is better than nothing and the second is the best.
class BestCheckpointTest : public CheckpointTest {
 protected:
  BestCheckpointTest() {
    for (std::uint64_t step = 1; step <= 3; ++step) {
      Checkpoint checkpoint = checkpoint_at(step);
      checkpoint.state.watched[kKey] = watched(step);
      write_checkpoint(folder_.path(), checkpoint);
    }
    point_to(folder_.path(), "best", checkpoint_name(2));
  }
  static RunState::Watched watched(std::uint64_t step) {
    const std::uint64_t best = std::min<std::uint64_t>(step, 2);
    return {.best = 1.0 / static_cast<double>(best), .best_step = best, .passes = step - best};
  }
  // What the run that goes on behind step 3 knows.
  RunState::Watched mended() {
    warnings_.clear();
    RunState state;
    state.step = 3;
    state.watched[kKey] = watched(3);
    const auto place = checkpoint_place(folder_.path(), nullptr);
    mend_best(*place, state, [this](std::string text) { warnings_ += text + "\n"; });
    return state.watched.at(kKey);
  }
  std::string best() const { return pointed_to(folder_.path(), "best"); }
};

TEST_F(BestCheckpointTest, WhatARunGoesOnBehindIsTheNewest) {
  point_to(folder_.path(), "latest", checkpoint_name(3));
  const auto place = checkpoint_place(folder_.path(), nullptr);
  for (const std::uint64_t step : {1U, 3U, 2U}) {
    const std::string name = checkpoint_name(step);
    const std::string before = best();
    point_to_used(*place, {folder_.path() / name, place->read(name)}, false,
                  [](const std::string& text) { ADD_FAILURE() << text; });
    EXPECT_EQ(newest(), name);
    EXPECT_EQ(best(), step == 3 ? before : name) << "the best so far, where it is the last one";
  }
}

// A later --resume finds again what was found, but not what was named.
TEST_F(BestCheckpointTest, APointerThatCannotBeWrittenIsAnErrorOnlyWhereACheckpointWasNamed) {
  point_to(folder_.path(), "latest", checkpoint_name(9));  // which is gone
  fs::create_directory(folder_.path() / ("latest.new-" + std::to_string(::getpid())));
  const auto place = checkpoint_place(folder_.path(), nullptr);
  const auto use = [&](std::uint64_t step, bool was_named) {
    warnings_.clear();
    const std::string name = checkpoint_name(step);
    point_to_used(*place, {folder_.path() / name, place->read(name)}, was_named,
                  [this](const std::string& text) { warnings_ += text + "\n"; });
  };
  use(3, false);
  EXPECT_EQ(
      warnings_.find("the file 'latest' does not name '" + (folder_.path() / checkpoint_name(3)).string() + "' yet: cannot "), 0U)
      << warnings_;
  const Error error = testkit::error_of([&] { use(1, true); });
  EXPECT_EQ(error.kind(), ErrorKind::storage);
  EXPECT_NE(error.message().find("step-000000001' cannot be made the run's newest checkpoint: cannot "), std::string::npos)
      << error.message();
  EXPECT_NE(error.message().find("deleting the checkpoints that come later"), std::string::npos) << error.message();
  EXPECT_EQ(pointed_to(folder_.path(), "latest"), checkpoint_name(9));
}

TEST_F(BestCheckpointTest, TheBestOneIsFoundByItsStepAndItsFigure) {
  const auto place = checkpoint_place(folder_.path(), nullptr);
  const auto found = best_checkpoint(*place, kKey, watched(3));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, checkpoint_name(2));
  EXPECT_EQ(found->checkpoint.state.step, 2U);
  EXPECT_FALSE(best_checkpoint(*place, kKey, {.best = 0.25, .best_step = 2, .passes = 0})) << "of another course";
  EXPECT_FALSE(best_checkpoint(*place, "run.best validate.loss", watched(3)));
  fs::resize_file(folder_.path() / checkpoint_name(2) / "state.json", 1);
  EXPECT_FALSE(best_checkpoint(*place, kKey, watched(3)));
}

TEST_F(BestCheckpointTest, OneThatIsThereStays) {
  EXPECT_EQ(mended().best_step, 2U);
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

TEST_F(BestCheckpointTest, ALaterOneIsOfACourseThatTheRunHasLeft) {
  write_checkpoint(folder_.path(), checkpoint_at(4));
  point_to(folder_.path(), "best", checkpoint_name(4));
  EXPECT_EQ(mended().best_step, 2U);
  EXPECT_EQ(best(), checkpoint_name(2));
  EXPECT_EQ(warnings_, "");
  fs::remove_all(folder_.path() / checkpoint_name(2));
  point_to(folder_.path(), "best", checkpoint_name(4));
  EXPECT_FALSE(mended().best);
  EXPECT_EQ(warnings_, "the best checkpoint, after step 2, is not there or damaged: the next figure is the best so far\n");
}

TEST_F(BestCheckpointTest, OneThatIsGoneIsSaidAndTheOneBeforeIsTheBest) {
  fs::remove_all(folder_.path() / checkpoint_name(2));
  const RunState::Watched none = mended();
  EXPECT_FALSE(none.best);
  EXPECT_EQ(none.passes, 1U);
  EXPECT_EQ(warnings_, "the best checkpoint, after step 2, is not there or damaged: the next figure is the best so far\n");
  point_to(folder_.path(), "best", checkpoint_name(1));
  EXPECT_EQ(mended().best, 1.0);
  EXPECT_EQ(warnings_, "the best checkpoint, after step 2, is not there or damaged: 'step-000000001' is the best so far\n");
}

TEST_F(BestCheckpointTest, OneThatIsDamagedIsSaid) {
  const fs::path file = folder_.path() / checkpoint_name(2) / "state.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_FALSE(mended().best);
  EXPECT_EQ(warnings_, "the best checkpoint, after step 2, is not there or damaged: the next figure is the best so far\n");
}

TEST_F(BestCheckpointTest, ADamagedOneIsNotPointedTo) {
  fs::remove(folder_.path() / "best");
  fs::resize_file(folder_.path() / checkpoint_name(2) / "state.json", 1);
  EXPECT_FALSE(mended().best);
  EXPECT_EQ(best(), "");
  EXPECT_NE(warnings_, "");
}

}  // namespace
}  // namespace millrace::checkpoint_test
