// What went wrong in other systems when runs were saved and went on, each with its name.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

#include "checkpoint/checkpoint.h"
#include "fault_runner.h"
#include "replay_disk.h"

namespace millrace::test::known_failures_test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSteps = 10, kAnEpoch = 5;  // as pipeline.toml says

class KnownFailure : public RunTest {
 protected:
  // A run with a checkpoint after each step, all of which are kept.
  void make_whole() {
    whole_ = run("whole", kAll);
    ASSERT_EQ(whole_.code, 0) << whole_.err;
  }
  // The same run, killed some time after this step, and resumed.
  void resume_behind(std::uint64_t step) {
    make_whole();
    copy_back_to(step, "whole", "resumed");
    resumed_ = run("resumed", kAll, {"--resume"});
    ASSERT_EQ(resumed_.code, 0) << resumed_.err;
    ASSERT_EQ(events(resumed_, "resume").size(), 1U);
    EXPECT_EQ(events(resumed_, "resume")[0].at("step"), step);
  }
  std::string tensors(const std::string& runs, std::uint64_t step) const {
    return read_file(checkpoint_in(runs, step) / "state.safetensors");
  }

  const Words kAll = {"checkpoint.every=1 step", "checkpoint.keep=100"};
  Outcome whole_, resumed_;
};

// Slow weights replace the fast ones at a run's last step, so they are left out where runs of several lengths are compared.
const std::string kNoSlowWeights = "train.optimizer.lookahead={every=0}";

// What is left of losses of power right after each move of the pointer.
struct Moves {
  std::size_t all = 0;     // moves
  std::size_t there = 0;   // pointers that had moved
  std::size_t broken = 0;  // pointers, moved or not, to a checkpoint that is not whole
};

bool is_whole(const fs::path& checkpoints, const std::string& name) {
  try {
    return checkpoint_name(read_checkpoint(checkpoints / name).state.step) == name;
  } catch (const std::exception&) {
    return false;
  }
}

Moves lose_power_behind_moves(const std::vector<LoggedCall>& calls) {
  const ReplayDisk disk(calls);
  const MemoryFolder left;
  std::mt19937_64 random(1);
  Moves moves;
  for (std::size_t at = 0; at < calls.size(); ++at) {
    const bool moves_it = calls[at].call.starts_with("rename") && fs::path(calls[at].second).filename() == "latest";
    if (!moves_it || calls[at].error != 0) continue;
    ++moves.all;
    for (int loss = 0; loss < 4; ++loss) {
      fs::remove_all(left.path());
      disk.after_power_loss(at + 1, random, left.path());
      const fs::path checkpoints = newest_run(left.path());
      const std::string latest = checkpoints.empty() ? std::string() : pointed_to(checkpoints, "latest");
      if (latest.empty()) continue;  // the first move was lost
      moves.there += latest == checkpoint_name(moves.all) ? 1 : 0;
      moves.broken += is_whole(checkpoints, latest) ? 0 : 1;
    }
  }
  return moves;
}

TEST_F(KnownFailure, ThePointerMovedBeforeTheDataWasDurable) {
  Words set = kAll;
  set.push_back("checkpoint.folder=" + (folder_ / "checkpoints"));
  const auto written = run_with_faults("checkpoints", {"FAULT_FILES_LOG=" + (folder_ / "calls")}, "runs", set);
  if (!written) GTEST_SKIP() << "fault_files.so was not built";
  ASSERT_EQ(written->code, 0) << written->err;
  std::vector<LoggedCall> calls = read_log(folder_ / "calls");
  const Moves moves = lose_power_behind_moves(calls);
  EXPECT_EQ(moves.all, kSteps);
  EXPECT_GE(moves.there, kSteps / 2) << "a model that loses each move says nothing";
  EXPECT_EQ(moves.broken, 0U);
  std::erase_if(calls, [](const LoggedCall& call) { return call.call == "fsync"; });
  EXPECT_GT(lose_power_behind_moves(calls).broken, 0U) << "without syncs it is seen";
}

// The disk is slow, so that steps are done while a checkpoint is written.
TEST_F(KnownFailure, WeightsChangedWhileTheyWereWritten) {
  Words goes_on = kAll, ends = kAll;
  for (Words* set : {&goes_on, &ends}) set->push_back(kNoSlowWeights);
  goes_on.push_back("stop.max_steps=7");
  ends.push_back("stop.max_steps=4");
  const auto slow = run_with_faults("goes_on", {"FAULT_FILES_NAME=state.safetensors", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=slow"},
                                    "goes_on", goes_on);
  if (!slow) GTEST_SKIP() << "fault_files.so was not built";
  ASSERT_EQ(slow->code, 0) << slow->err;
  ASSERT_EQ(run("ends", ends).code, 0);
  ASSERT_FALSE(tensors("ends", 4).empty());
  EXPECT_TRUE(tensors("goes_on", 4) == tensors("ends", 4)) << "a run that goes on saves other values than one that has ended";
}

TEST_F(KnownFailure, LaterSavesRewroteTheFirstOnesWeights) {
  Words goes_on = kAll, ends = kAll;
  for (Words* set : {&goes_on, &ends}) set->push_back(kNoSlowWeights);
  ends.push_back("stop.max_steps=1");
  ASSERT_EQ(run("whole", goes_on).code, 0);
  ASSERT_EQ(run("ends", ends).code, 0);
  EXPECT_TRUE(tensors("whole", 1) == tensors("ends", 1)) << "the first one is not what it was before nine others were saved";
  std::map<std::string, std::uint64_t> seen;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    const std::string values = tensors("whole", step);
    ASSERT_FALSE(values.empty()) << step;
    const auto [at, is_new] = seen.emplace(values, step);
    EXPECT_TRUE(is_new) << "step " << step << " has the values of step " << at->second;
  }
}

TEST_F(KnownFailure, TheStepNumberWasReadAfterTrainingHadGoneOn) {
  make_whole();
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    const auto state = nlohmann::json::parse(read_file(checkpoint_in("whole", step) / "state.json"), nullptr, false);
    ASSERT_TRUE(state.is_object()) << step;
    EXPECT_EQ(state.at("step"), step);
    EXPECT_EQ(state.at("epoch"), step / kAnEpoch);
    EXPECT_EQ(state.at("step_of_epoch"), step % kAnEpoch);
    EXPECT_EQ(state.at("epoch_so_far").at("steps"), step % kAnEpoch);
    EXPECT_EQ(state.at("stages").at("optimizer"), std::to_string(step)) << "updates done";
  }
}

TEST_F(KnownFailure, AnErrorOfTheLastSaveWasSwallowed) {
  const auto full = run_with_faults("runs", {"FAULT_FILES_NAME=state.safetensors", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=ENOSPC"},
                                    "runs", {"checkpoint.every=end"});
  if (!full) GTEST_SKIP() << "fault_files.so was not built";
  EXPECT_EQ(full->code, 1);
  EXPECT_NE(full->err.find("the last checkpoint is not written: "), std::string::npos) << full->err;
}

TEST_F(KnownFailure, ACopiedFolderWasJudgedIncomplete) {
  make_whole();
  copy_back_to(4, "whole", "copied");
  const fs::path moved = folder_.path() / "elsewhere" / "with another name";
  fs::create_directories(moved.parent_path());
  fs::rename(run_in("copied"), moved);
  const LeftByRun whole = left_by(run_in("whole"));
  fs::remove_all(folder_.path() / "whole");  // nothing may be looked for where it was
  const Outcome resumed = run("copied", kAll, {"--resume", moved.string()});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.err, whole_.err) << "nothing is said that was not said of the whole run";
  ASSERT_EQ(events(resumed, "resume").size(), 1U);
  EXPECT_EQ(events(resumed, "resume")[0].at("step"), 4);
  expect_the_same(whole, left_by(moved), "moved");
}

TEST_F(KnownFailure, ADiskThatWasNotMountedBeganARunAnewWithoutAWord) {
  const fs::path disk = folder_.path() / "disk";
  const Words set = {"checkpoint.folder=" + disk.string()};
  const Outcome first = run("runs", set);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err.find("a new run begins"), std::string::npos) << first.err;
  fs::rename(disk, folder_.path() / "not mounted");
  fs::create_directory(disk);
  const Outcome second = run("runs", set);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(events(second, "start").size(), 1U);
  EXPECT_NE(second.err.find(fmt::format("has a checkpoint in checkpoint.folder = \"{}\"\n", disk.string())), std::string::npos)
      << second.err;
}

TEST_F(KnownFailure, AValidationOfOneBatchAfterResuming) {
  resume_behind(4);
  const auto passes = events(resumed_, "validate");
  ASSERT_EQ(passes.size(), 3U);
  for (const auto& pass : passes) EXPECT_EQ(pass.at("samples"), 60) << pass;  // all of [validate.read] limit, in three batches
}

TEST_F(KnownFailure, ResumingPastTheFirstEpoch) {
  resume_behind(8);
  const auto steps = events(resumed_, "step");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].at("step"), 9);
  EXPECT_EQ(steps[0].at("epoch"), 2);
  expect_the_same(left_by(run_in("whole")), left_by(run_in("resumed")), "after step 8");
}

TEST_F(KnownFailure, SamplesWereRepeatedOrLeftOut) {
  resume_behind(3);
  const auto all = events(whole_, "epoch"), rest = events(resumed_, "epoch");
  ASSERT_EQ(all.size(), 2U);
  ASSERT_EQ(rest.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(all[i].at("stream_hash"), rest[i].at("stream_hash")) << "epoch " << i + 1;
  EXPECT_NE(all[0].at("stream_hash"), all[1].at("stream_hash")) << "a hash that says nothing";
}

TEST_F(KnownFailure, ValidationSilentlyNeverRanAgain) {
  resume_behind(4);
  const auto steps_of_passes = [](const Outcome& outcome) {
    std::vector<std::uint64_t> steps;
    for (const auto& pass : events(outcome, "validate")) steps.push_back(pass.at("step"));
    return steps;
  };
  EXPECT_EQ(steps_of_passes(whole_), (std::vector<std::uint64_t>{3, 6, 9, 10}));
  EXPECT_EQ(steps_of_passes(resumed_), (std::vector<std::uint64_t>{6, 9, 10}));
}

// 8 samples a step are 3, 3 and 2.
TEST_F(KnownFailure, AnotherNumberOfDevicesThatDoesNotDivide) {
  Words set = kAll;
  for (const char* each : {"train.batch.size=8", "train.read.limit=40", "network.use=plain.toml"}) set.emplace_back(each);
  const Outcome whole = run("whole", set);
  ASSERT_EQ(whole.code, 0) << whole.err;
  copy_back_to(4, "whole", "resumed");
  const Outcome resumed = run("resumed", set, {"--resume", "--devices", "cpu*3", "--allow-change", "run.devices"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("is of 1 replica, and 3 resume: every step keeps its samples"), std::string::npos) << resumed.err;
  const auto all = events(whole, "epoch"), rest = events(resumed, "epoch");
  ASSERT_EQ(all.size(), 2U);
  ASSERT_EQ(rest.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(all[i].at("stream_hash"), rest[i].at("stream_hash")) << "epoch " << i + 1;
  const auto steps = events(whole, "step"), other_steps = events(resumed, "step");
  ASSERT_EQ(other_steps.size(), kSteps - 4);
  for (std::size_t i = 0; i < other_steps.size(); ++i) {
    EXPECT_EQ(other_steps[i].at("step"), steps[4 + i].at("step"));
    EXPECT_NEAR(other_steps[i].at("loss").get<double>(), steps[4 + i].at("loss").get<double>(), 1e-4);
  }
}

}  // namespace
}  // namespace millrace::test::known_failures_test
