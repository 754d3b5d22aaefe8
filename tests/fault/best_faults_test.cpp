// Whole runs of which the disk takes for a while no best weights, no lines, or no best checkpoint: what waits is written later.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "checkpoint/checkpoint.h"
#include "pipelines/command.h"
#include "replay_log.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// quickstart.toml made small: 2 epochs of 4 steps, validated after each, with a checkpoint after each second step.
class BestFaultsTest : public testing::Test {
 protected:
  BestFaultsTest() {
    std::ofstream(folder_ / "network.toml") << R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "global_average_pool" }, { op = "linear", out = "${classes}" } ]
)";
  }

  Outcome run(const std::string& runs, const Words& faults, const Words& options = {},
              const Words& checkpoints = {"checkpoint.every=2 steps", "checkpoint.keep=10"}) const {
    Words words = {"/usr/bin/env", fmt::format("LD_PRELOAD={}", FAULT_FILES),
                   fmt::format("FAULT_FILES_FOLDER={}", folder_ / runs)};
    words.insert(words.end(), faults.begin(), faults.end());
    words.insert(words.end(), {tool("pipeline-run"), pipeline("quickstart.toml"), "--json"});
    for (const std::string& each :
         {fmt::format("data.path={}", shapes()), fmt::format("network.use={}", folder_ / "network.toml"),
          fmt::format("run.folder={}", folder_ / runs), std::string("run.epochs=2"), std::string("run.best=validate.loss")}) {
      words.insert(words.end(), {"--set", each});
    }
    for (const std::string& each : checkpoints) words.insert(words.end(), {"--set", each});
    words.insert(words.end(), options.begin(), options.end());
    return run_command(words);
  }
  std::string left_in(const std::string& runs, const std::string& file) const {
    return read_file(find_file(folder_.path() / runs, file));
  }

  const TemporaryFolder folder_;
};

TEST_F(BestFaultsTest, BestWeightsThatTheDiskDidNotTakeForAWhileAreWrittenLater) {
  ASSERT_EQ(run("whole", {}).code, 0);
  const std::string best = left_in("whole", "best.safetensors");
  ASSERT_FALSE(best.empty());
  const Outcome outcome = run("runs", {"FAULT_FILES_NAME=best.safetensors", "FAULT_FILES_AT=1-2", "FAULT_FILES_DO=ENOSPC"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: the best weights, after step 4, wait in memory and are tried again: cannot create '"),
            std::string::npos)
      << outcome.err;
  EXPECT_TRUE(left_in("runs", "best.safetensors") == best);
}

TEST_F(BestFaultsTest, BestWeightsThatAreNeverWrittenAreAnErrorAndRescued) {
  ASSERT_EQ(run("whole", {}).code, 0);
  const Words full = {"FAULT_FILES_NAME=best.safetensors", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=ENOSPC"};
  const Outcome lost = run("runs", full);
  EXPECT_EQ(lost.code, 1);
  EXPECT_NE(lost.err.find("the best weights, after step 8, are not written: cannot create '"), std::string::npos) << lost.err;
  EXPECT_EQ(left_in("runs", "weights.safetensors"), left_in("whole", "weights.safetensors"));
  const Outcome saved = run("saved", full, {"--rescue", folder_ / "rescue"});
  EXPECT_EQ(saved.code, 1);
  EXPECT_EQ(left_in("rescue", "best.safetensors"), left_in("whole", "best.safetensors")) << saved.err;
}

// The best checkpoint is there, and the weights are exported from it.
TEST_F(BestFaultsTest, BestWeightsThatWereNeverWrittenComeWithTheResume) {
  ASSERT_EQ(run("whole", {}).code, 0);
  const Outcome lost = run("runs", {"FAULT_FILES_NAME=best.safetensors", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=ENOSPC"});
  ASSERT_EQ(lost.code, 1);
  EXPECT_EQ(left_in("runs", "best"), "step-000000008\n");
  EXPECT_TRUE(find_file(folder_.path() / "runs", "best.safetensors").empty());
  const Outcome resumed = run("runs", {}, {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(left_in("runs", "best.safetensors") == left_in("whole", "best.safetensors"));
}

// Without checkpoints the weights are written by themselves.
TEST_F(BestFaultsTest, BestWeightsOfARunWithoutCheckpointsWaitForTheDiskToo) {
  ASSERT_EQ(run("whole", {}).code, 0);
  const Outcome outcome = run("runs", {"FAULT_FILES_NAME=best.safetensors", "FAULT_FILES_AT=1-2", "FAULT_FILES_DO=ENOSPC"}, {},
                              {"checkpoint.every=never"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: the best weights, after step 4, wait in memory and are tried again: cannot create '"),
            std::string::npos)
      << outcome.err;
  EXPECT_TRUE(find_file(folder_.path() / "runs", "latest").empty());
  EXPECT_TRUE(left_in("runs", "best.safetensors") == left_in("whole", "best.safetensors"));
}

TEST_F(BestFaultsTest, NoLineOfTheMetricsIsMissingOrTornAfterAFullDisk) {
  ASSERT_EQ(run("whole", {}).code, 0);
  const Outcome outcome = run("runs", {"FAULT_FILES_NAME=metrics.jsonl", "FAULT_FILES_AT=4-7", "FAULT_FILES_DO=ENOSPC"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("metrics.jsonl' wait: No space left on device"), std::string::npos) << outcome.err;
  const auto kinds = [&](const std::string& runs) {
    std::istringstream lines(left_in(runs, "metrics.jsonl"));
    Words found;
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      found.push_back(event.is_discarded() ? "no JSON: " + line : event.at("event").get<std::string>());
    }
    std::sort(found.begin(), found.end());  // checkpoints are told by a thread of their own
    return found;
  };
  EXPECT_EQ(kinds("runs"), kinds("whole"));
}

TEST_F(BestFaultsTest, LinesThatAreMissingAtTheEndFailTheRun) {
  const Outcome outcome = run("runs", {"FAULT_FILES_NAME=metrics.jsonl", "FAULT_FILES_AT=4-", "FAULT_FILES_DO=ENOSPC"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("observer 'metrics': '"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" lines: No space left on device; the run is done, and its weights are in '"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find(" that a checkpoint stands behind: No space left on device"), std::string::npos) << outcome.err;
  EXPECT_FALSE(left_in("runs", "weights.safetensors").empty());
}

TEST_F(BestFaultsTest, TheMetricsAreOnTheDiskBeforeACheckpointBehindThemIsTheNewest) {
  const Outcome outcome = run("runs", {fmt::format("FAULT_FILES_LOG={}", folder_ / "log")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  int metrics = -1;
  std::size_t unsynced = 0, newest = 0;
  for (const LoggedCall& call : read_log(folder_ / "log")) {
    if (call.call == "open" && call.path.ends_with("metrics.jsonl")) metrics = call.descriptor;
    if (call.call == "write" && call.descriptor == metrics && call.data.find("\"event\":\"step\"") != std::string::npos)
      ++unsynced;
    if (call.call == "fsync" && call.descriptor == metrics) unsynced = 0;
    if (call.call != "rename" || !call.second.ends_with("checkpoints/latest")) continue;
    ++newest;
    EXPECT_LE(unsynced, 8 - 2 * newest) << "checkpoint " << newest;  // training may be ahead, by steps after this one
  }
  EXPECT_EQ(newest, 4U);
  EXPECT_EQ(unsynced, 0U) << "nothing is after the last one";
}

TEST_F(BestFaultsTest, OtherVersionsAreSaidByARunThatGoesOn) {
  ASSERT_EQ(run("runs", {}).code, 0);
  const fs::path checkpoints = find_file(folder_.path() / "runs", "latest").parent_path();
  const std::string newest = pointed_to(checkpoints, "latest");
  Checkpoint checkpoint = read_checkpoint(checkpoints / newest);
  ASSERT_TRUE(checkpoint.state.versions.contains("Millrace"));
  EXPECT_TRUE(checkpoint.state.versions.contains("cpu oneDNN"));
  const Outcome same = run("runs", {}, {"--resume"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.err.find("other versions"), std::string::npos) << same.err;
  checkpoint.state.versions["Millrace"] = "0.0.1";
  write_checkpoint(checkpoints, checkpoint);
  const Outcome other = run("runs", {}, {"--resume"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("was written by other versions, so bits may differ from here on: Millrace: 0.0.1 before, now "),
            std::string::npos)
      << other.err;
}

}  // namespace
}  // namespace millrace::test
