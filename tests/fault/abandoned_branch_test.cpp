// A run that resumes from an older checkpoint abandons a branch of its history: the contents of its files, also on a full disk.
#include <fmt/format.h>

#include <algorithm>

#include "fault_runner.h"
#include "weights/best_weights.h"
#include "weights/safetensors.h"

namespace millrace::test::abandoned_branch_test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kOlder = 4;  // the first validation is after step 3, and is the best so far

// A whole run with a checkpoint after each step. A later validation has its best weights.
class AbandonedBranch : public RunTest {
 protected:
  void SetUp() override {
    const Outcome whole = succeeded(run("runs", kAll));
    file_ = run_in("runs") / "best.safetensors";
    const auto best = best_in(file_);
    ASSERT_TRUE(best);
    ASSERT_GT(best->step, kOlder) << "the test says nothing: the loss did not fall";
    aside_ = file_.parent_path() / fmt::format("best-step-{}.safetensors", best->step);
    bytes_ = read_file(file_);
  }
  std::string latest() const { return read_file(file_.parent_path() / "checkpoints" / "latest"); }
  // Resumes after this checkpoint; no steps are left if the run ends there.
  Outcome go_back(std::uint64_t step, const Words& more = {}) const {
    Words set = kAll;
    set.insert(set.end(), more.begin(), more.end());
    return run("runs", set, {"--resume", checkpoint_in("runs", step), "--allow-change", "stop"});
  }

  const Words kAll = {"checkpoint.every=1 step", "checkpoint.keep=100", "train.optimizer.lookahead={every=0}"};
  const Words kNoStep = {fmt::format("stop.max_steps={}", kOlder)};
  fs::path file_, aside_;
  std::string bytes_;
};

TEST_F(AbandonedBranch, ItsBestWeightsAreSetAsideAndThoseOfTheUsedBranchComeBack) {
  ASSERT_EQ(run("short", {"checkpoint.every=1 step", "train.optimizer.lookahead={every=0}", "stop.max_steps=3"}).code, 0);
  const Outcome back = succeeded(go_back(kOlder, kNoStep));
  EXPECT_NE(back.err.find("the best weights of an abandoned branch of the run, validate.loss = "), std::string::npos) << back.err;
  EXPECT_NE(back.err.find(fmt::format(", are in '{}' now; '{}' holds those after step 3 again", aside_.string(), file_.string())),
            std::string::npos)
      << back.err;
  EXPECT_TRUE(read_file(aside_) == bytes_);
  EXPECT_TRUE(read_file(file_) == read_file(run_in("short") / "best.safetensors")) << "as a run writes them that ends there";

  const Outcome forth = go_back(10);  // the abandoned branch still exists, and is used again
  ASSERT_EQ(forth.code, 0) << forth.err;
  EXPECT_TRUE(read_file(file_) == bytes_);
  EXPECT_TRUE(fs::exists(file_.parent_path() / "best-step-3.safetensors"));
}

TEST_F(AbandonedBranch, WithoutTheCheckpointOfItsBestTheNextFigureIsTheBest) {
  fs::remove_all(checkpoint_in("runs", 3));
  const Outcome back = succeeded(go_back(kOlder, kNoStep));
  EXPECT_NE(back.err.find("the best checkpoint, after step 3, is missing or damaged: the next value counts as the best"),
            std::string::npos)
      << back.err;
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_TRUE(read_file(aside_) == bytes_);
  const Outcome resumed = succeeded(run("runs", kAll, {"--resume"}));
  ASSERT_TRUE(best_in(file_));
  EXPECT_TRUE(read_file(file_) == bytes_) << "it is the same branch, and has the same best";
}

TEST_F(AbandonedBranch, BestWeightsThatAFullDiskDoesNotTakeBackAreTriedAgain) {
  const auto full =
      fault_environment("runs", {"FAULT_FILES_NAME=best.safetensors.new", "FAULT_FILES_AT=1", "FAULT_FILES_DO=ENOSPC"});
  if (!full) GTEST_SKIP() << "fault_files.so was not built";
  Words set = kAll;
  set.emplace_back("stop.max_steps=5");  // no validation improves on the one before: a rate of 0 trains nothing
  set.emplace_back("train.optimizer.learning_rate.initial=0");
  RunningProgram program(
      command("runs", set,
              {"--resume", checkpoint_in("runs", kOlder), "--allow-change", "stop", "--allow-change", "train.optimizer"}),
      *full);
  ASSERT_TRUE(program.ends(240));
  EXPECT_EQ(program.code(), 0) << program.err();
  EXPECT_NE(program.err().find("the best weights, after step 3, stay in memory for another attempt: cannot create '"),
            std::string::npos)
      << program.err();
  const auto best = best_in(file_);
  ASSERT_TRUE(best) << program.err();
  EXPECT_TRUE(best->step == 3 || best->step == 5) << best->step;
}

// Otherwise a later --resume would use the abandoned branch.
TEST_F(AbandonedBranch, AFullDiskThatCannotMoveThePointerEndsTheRunBeforeItBegins) {
  const auto full = fault_environment("runs", {"FAULT_FILES_NAME=/latest.new", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=ENOSPC"});
  if (!full) GTEST_SKIP() << "fault_files.so was not built";
  RunningProgram program(command("runs", kAll, {"--resume", checkpoint_in("runs", kOlder)}), *full);
  ASSERT_TRUE(program.ends(240));
  EXPECT_EQ(program.code(), 1) << program.err();
  EXPECT_NE(program.err().find(fmt::format("'{}' cannot be made the run's newest checkpoint: cannot create '",
                                           checkpoint_in("runs", kOlder).string())),
            std::string::npos)
      << program.err();
  EXPECT_EQ(program.out().find("\"event\":\"step\""), std::string::npos);
  EXPECT_EQ(latest(), "step-000000010\n");
  const Outcome resumed = succeeded(run("runs", kAll, {"--resume"}));
  EXPECT_EQ(events(resumed, "resume").at(0).at("step"), 10);
  EXPECT_TRUE(read_file(file_) == bytes_) << "the best weights are those of the branch that is resumed";
}

// A later --resume finds the same checkpoint.
TEST_F(AbandonedBranch, AFullDiskIsWarnedOfWhereTheNewestCheckpointIsGone) {
  fs::remove_all(checkpoint_in("runs", 10));
  const auto full = fault_environment("runs", {"FAULT_FILES_NAME=/latest.new", "FAULT_FILES_AT=1", "FAULT_FILES_DO=ENOSPC"});
  if (!full) GTEST_SKIP() << "fault_files.so was not built";
  RunningProgram program(command("runs", kAll, {"--resume"}), *full);
  ASSERT_TRUE(program.ends(240));
  EXPECT_EQ(program.code(), 0) << program.err();
  EXPECT_NE(program.err().find("the file 'latest' does not name '"), std::string::npos) << program.err();
  EXPECT_EQ(latest(), "step-000000010\n");
  EXPECT_TRUE(read_file(file_) == bytes_);
}

TEST_F(AbandonedBranch, ARunThatWasRenamedIsNotTheNewestOne) {
  fs::rename(file_.parent_path(), file_.parent_path().parent_path() / "the good one");
  const Outcome none = run("runs", kAll, {"--resume"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("has a checkpoint"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace millrace::test::abandoned_branch_test
