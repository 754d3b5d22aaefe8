// Whole runs whose disk is full: the earlier checkpoint stays, training continues, and only the end of a run can fail.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "pipelines/command.h"
#include "pipelines/running_program.h"
#include "replay_log.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSteps = 4;
constexpr const char* kNetwork = R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "global_average_pool" }, { op = "linear", out = "${classes}" } ]
)";

// quickstart.toml made small: 4 steps, with a checkpoint after each.
class DiskFaultsTest : public testing::Test {
 protected:
  DiskFaultsTest() { std::ofstream(folder_ / "network.toml") << kNetwork; }

  // `watched`: a folder below the test's, "checkpoints" or "runs". The run's folders begin empty.
  Outcome run(const std::string& watched, const std::vector<std::string>& faults,
              const std::vector<std::string>& options = {}) const {
    for (const char* each : {"runs", "checkpoints", "rescue", "log"}) fs::remove_all(folder_.path() / each);
    std::vector<std::string> words = with(
        {"/usr/bin/env", fmt::format("LD_PRELOAD={}", FAULT_FILES), "FAULT_FILES_FOLDER=" + (folder_ / watched)}, {}, faults);
    words.insert(words.end(), {tool("pipeline-run"), pipeline("quickstart.toml"), "--json"});
    return run_command(
        with(words,
             {"data.path=" + shapes(), "network.use=" + (folder_ / "network.toml"), "run.folder=" + (folder_ / "runs"),
              "checkpoint.folder=" + (folder_ / "checkpoints"), "run.epochs=1", "checkpoint.every=1 step", "checkpoint.keep=2"},
             options));
  }
  std::string weights_in(const std::string& folder) const {
    return read_file(find_file(folder_.path() / folder, "weights.safetensors"));
  }
  // The step of the newest checkpoint that loads; 0 if there is none.
  std::uint64_t newest() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_.path() / "checkpoints" / "quickstart", ignored)) {
      const auto found = newest_checkpoint(entry.path(), [](const std::string& text) { ADD_FAILURE() << text; });
      if (found) return found->checkpoint.state.step;
    }
    return 0;
  }
  void expect_a_run_that_survived(const Outcome& outcome, const std::string& weights) const {
    const auto told = events(outcome, "checkpoint");
    const bool ends_well = !told.empty() && told.back().at("step") == kSteps;
    EXPECT_EQ(outcome.code, ends_well ? 0 : 1) << outcome.err;
    EXPECT_EQ(outcome.err.find("the last checkpoint was not written") == std::string::npos, ends_well) << outcome.err;
    EXPECT_EQ(events(outcome, "step").size(), kSteps);
    EXPECT_TRUE(weights_in("runs") == weights) << "the weights differ";
    ASSERT_FALSE(told.empty()) << outcome.err;
    EXPECT_GE(newest(), told.back().at("step").get<std::uint64_t>());
    std::size_t warnings = 0;
    for (std::size_t at = 0; (at = outcome.err.find("no checkpoint after step", at)) != std::string::npos; ++at) ++warnings;
    EXPECT_EQ(warnings, told.size() == kSteps ? 0U : 1U) << outcome.err;
  }

  const TemporaryFolder folder_;
};

// MILLRACE_FAULTS=all: each call with each error. Otherwise two calls for each error, spread over all.
TEST_F(DiskFaultsTest, AnyCallMayFailAfterTheFirstCheckpoint) {
  const Outcome whole = succeeded(run("checkpoints", {fmt::format("FAULT_FILES_LOG={}", folder_ / "log")}));
  const std::string weights = weights_in("runs");
  ASSERT_FALSE(weights.empty());
  const std::vector<LoggedCall> calls = read_log(folder_ / "log");
  const auto first =
      std::find_if(calls.begin(), calls.end(), [](const LoggedCall& call) { return call.second.ends_with("latest"); });
  ASSERT_NE(first, calls.end());
  const std::uint64_t begin = first->number + 5, end = calls.back().number;  // after the sync of the folder
  const char* const wanted = std::getenv("MILLRACE_FAULTS");
  const std::uint64_t stride = wanted != nullptr && std::string(wanted) == "all" ? 1 : (end - begin) / 2 - 7;
  std::uint64_t shift = 0;
  for (const char* error : {"ENOSPC", "EIO", "EDQUOT", "EROFS"}) {
    for (std::uint64_t call = begin + (stride > 1 ? shift : 0); call <= end; call += stride) {
      SCOPED_TRACE(fmt::format("{} at call {} of {}", error, call, end));
      expect_a_run_that_survived(
          run("checkpoints", {fmt::format("FAULT_FILES_AT={}", call), fmt::format("FAULT_FILES_DO={}", error)}), weights);
    }
    shift += 3;
  }
  SCOPED_TRACE("full from the second checkpoint on");
  expect_a_run_that_survived(run("checkpoints", {fmt::format("FAULT_FILES_AT={}-", begin + 6), "FAULT_FILES_DO=ENOSPC"}),
                             weights);
  SCOPED_TRACE("writes are short");
  const Outcome torn = run("checkpoints", {"FAULT_FILES_AT=1-", "FAULT_FILES_DO=short"});
  expect_a_run_that_survived(torn, weights);
  EXPECT_EQ(torn.code, 0) << "the rest of a short write is written";
}

TEST_F(DiskFaultsTest, WeightsThatTheFolderDoesNotTakeAreRescued) {
  const Outcome whole = succeeded(run("runs", {}));
  const std::string weights = weights_in("runs");
  const std::vector<std::string> full = {"FAULT_FILES_NAME=weights.safetensors", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=ENOSPC"};
  const Outcome lost = run("runs", full);
  EXPECT_EQ(lost.code, 1);
  EXPECT_NE(lost.err.find("the weights are not written: cannot create '"), std::string::npos) << lost.err;
  const std::string before = "; they are in '";
  const std::size_t at = lost.err.find(before);
  ASSERT_NE(at, std::string::npos) << lost.err;
  const fs::path kept = lost.err.substr(at + before.size(), lost.err.find('\'', at + before.size()) - at - before.size());
  EXPECT_TRUE(read_file(kept) == weights) << "among temporary files, where no other place is named";
  EXPECT_EQ(kept.parent_path().parent_path(), fs::temp_directory_path());
  fs::remove_all(kept.parent_path());
  EXPECT_EQ(newest(), kSteps);
  const Outcome saved = run("runs", full, {"--rescue", folder_ / "rescue"});
  EXPECT_EQ(saved.code, 1);
  EXPECT_NE(saved.err.find(fmt::format("; they are in '{}", folder_ / "rescue")), std::string::npos) << saved.err;
  EXPECT_TRUE(weights_in("rescue") == weights);
}

// Exit code 143 means that the run can be resumed: a restarting script would begin anew for ever.
TEST_F(DiskFaultsTest, AStopBySignalThatCouldNotSaveIsAFailure) {
  RunningProgram program(
      {tool("pipeline-run"), pipeline("quickstart.toml"), "--json", "--set", "data.path=" + shapes(), "--set",
       "network.use=" + (folder_ / "network.toml"), "--set", "run.folder=" + (folder_ / "runs"), "--set", "run.epochs=100000"},
      {fmt::format("LD_PRELOAD={}", FAULT_FILES), fmt::format("FAULT_FILES_FOLDER={}", folder_ / "runs"),
       "FAULT_FILES_NAME=.step-", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=ENOSPC"});
  constexpr double kPatience = 60;
  ASSERT_TRUE(program.says("\"event\":\"epoch\"", kPatience)) << program.err();
  program.send(SIGTERM);
  ASSERT_TRUE(program.ends(kPatience)) << program.err();
  EXPECT_EQ(program.code(), 1) << program.err();
  EXPECT_EQ(program.err().find("to resume"), std::string::npos) << program.err();
  EXPECT_NE(program.err().find("the last checkpoint was not written: "), std::string::npos) << program.err();
  EXPECT_NE(program.err().find("; the run has no checkpoint yet"), std::string::npos) << program.err();
  EXPECT_FALSE(weights_in("runs").empty());
}

}  // namespace
}  // namespace millrace::test
