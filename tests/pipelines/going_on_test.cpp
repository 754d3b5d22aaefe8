// The commands that an interrupted run prints for resuming work: they are typed unchanged.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "command.h"
#include "running_program.h"
#include "testkit/messages.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr double kPatience = 60;  // seconds, for busy machines
constexpr const char* kNetwork = R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "conv", out = 8, kernel = 3, stride = 2 }, { op = "relu" }, { op = "dropout", probability = 0.3 },
           { op = "global_average_pool" }, { op = "linear", out = "${classes}" } ]
)";

// quickstart.toml made small: 3 epochs of 4 steps, a checkpoint after each step. Names need quotes.
class GoingOnTest : public testing::Test {
 protected:
  GoingOnTest() { write_network(kNetwork); }

  void write_network(const std::string& text) const { std::ofstream(folder_ / "network.toml") << text; }
  Words command(const Words& set, const Words& options = {}) const {
    return with(with({tool("pipeline-run"), pipeline("quickstart.toml"), "--json"},
                     {"data.path=" + shapes(), "network.use=" + (folder_ / "network.toml"), "run.folder=" + runs().string(),
                      "run.epochs=3", "checkpoint.every=1 step", "checkpoint.keep=100"}),
                set, options);
  }
  Outcome run(const Words& set, const Words& options = {}) const { return run_command(command(set, options)); }
  fs::path runs() const { return folder_.path() / "it's $HOME"; }

  const TemporaryFolder folder_;
};

// The text between two others; "" if one of them is missing.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t begin = text.find(before);
  const std::size_t end = begin == std::string::npos ? begin : text.find(after, begin + before.size());
  return end == std::string::npos ? std::string() : text.substr(begin + before.size(), end - begin - before.size());
}

TEST_F(GoingOnTest, TheCommandThatASignalledRunPrintsGoesOnWithIt) {
  const Words set = {"run.epochs=100000", "checkpoint.every=50 steps", "train.augment.flip_x=0.25"};
  RunningProgram first(command(set, {"--devices", "cpu*2", "--processes", "2"}));
  ASSERT_TRUE(first.says("\"event\":\"step\"", kPatience)) << first.err();
  first.send(SIGTERM);
  ASSERT_TRUE(first.ends(kPatience));
  EXPECT_EQ(first.code(), 143) << first.err();
  const std::string typed = between(first.err(), "\nto resume: ", "\n");
  ASSERT_NE(typed, "") << first.err();
  RunningProgram second({"/bin/sh", "-c", "exec " + typed + " --quiet"});
  ASSERT_TRUE(second.says("\"event\":\"resume\"", kPatience)) << typed << '\n' << second.err();
  ASSERT_TRUE(second.says("\"event\":\"step\"", kPatience)) << typed << '\n' << second.err();
  second.send(SIGTERM);
  ASSERT_TRUE(second.ends(kPatience));
  EXPECT_EQ(second.code(), 143) << second.err();
  EXPECT_NE(second.err().find("to resume: "), std::string::npos) << "with --quiet nothing else says so: " << second.err();
}

// The folder holds everything but the data, and the run keeps its name.
TEST_F(GoingOnTest, AFolderOfARunIsEnoughToGoOnWithIt) {
  ASSERT_EQ(run({"run.name=mine"}).code, 0);
  const fs::path run_folder = newest_run(runs()), weights = run_folder / "weights.safetensors";
  const std::string expected = read_file(weights);
  fs::remove(weights);
  fs::remove(run_folder / "checkpoints/latest");
  for (int step = 8; step <= 12; ++step) fs::remove_all(run_folder / fmt::format("checkpoints/step-{:09}", step));
  const Outcome resumed = succeeded(run_command({tool("pipeline-run"), "--resume", run_folder.string()}));
  EXPECT_EQ(resumed.err.find(fmt::format("--resume: runs '{}'\n", (run_folder / "pipeline.toml").string())), 0U) << resumed.err;
  EXPECT_EQ(newest_run(runs()), run_folder) << "no other run was begun";
  EXPECT_TRUE(read_file(weights) == expected) << "the weights differ";
  const Outcome older =
      run_command({tool("pipeline-run"), "--check", "--resume", (run_folder / "checkpoints/step-000000005").string()});
  EXPECT_EQ(older.code, 0) << older.err;

  const Words measure = {tool("pipeline-run"), "--graph", "validate", "--weights", run_folder.string(), "--json"};
  const Outcome measured = succeeded(run_command(measure));
  EXPECT_EQ(events(measured, "validate").size(), 1U);
  EXPECT_EQ(newest_run(runs()).parent_path(), run_folder.parent_path()) << "under its name";

  const auto refusal = [](const Words& options) { return refused(run_command(with({tool("pipeline-run")}, {}, options))); };
  EXPECT_MESSAGE(refusal({run_folder.string()}));
  EXPECT_MESSAGE(refusal({"--resume"}));
  EXPECT_MESSAGE(refusal({"--resume", runs().string()}));
  EXPECT_MESSAGE(refusal({"--weights", run_folder.string()}));
  EXPECT_MESSAGE(refusal({"--validate", run_folder.string()}));
}

TEST_F(GoingOnTest, TheCommandThatExplainsWrongNumbersDoesSo) {
  const Outcome wrong = run({"train.optimizer.learning_rate.initial=1e30"}, {"--devices", "cpu*2"});
  EXPECT_EQ(wrong.code, 1) << wrong.err;
  const std::string typed = between(wrong.err, "; " + tool("pipeline-run"), " names the layer where it begins");
  ASSERT_NE(typed, "") << wrong.err;
  const Outcome explained = run_command({"/bin/sh", "-c", "exec " + tool("pipeline-run") + typed});
  EXPECT_EQ(explained.code, 0) << typed << '\n' << explained.err;
  EXPECT_NE(explained.out.find("replayed from "), std::string::npos) << explained.out;
}

TEST_F(GoingOnTest, ALostDeviceIsNamedWithTheCheckpointAndTheCommandThatGoesOn) {
  const fs::path plugins = fs::path(MILLRACE_BINARY_DIR) / "tests/simulated";
  if (!fs::exists(plugins / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
  const std::string path = "MILLRACE_PLUGIN_PATH=" + plugins.string();
  const auto start = [&](const std::string& lost) {
    fs::remove_all(runs());
    return run_command(with({"/usr/bin/env", path, "SIMULATED_GPU_FAIL=" + lost}, {}, command({}, {"--devices", "simulated:0"})));
  };
  const auto weights = [&] { return read_file(find_file(runs(), "weights.safetensors")); };
  const Outcome whole = succeeded(start("0"));
  const std::string expected = weights();
  ASSERT_FALSE(expected.empty());
  Outcome lost;
  for (int call = 200; call < 100'000 && (lost.code != 4 || events(lost, "checkpoint").empty()); call += call / 2)
    lost = start(std::to_string(call));
  ASSERT_EQ(lost.code, 4) << lost.err;
  EXPECT_NE(lost.err.find(") failed; the newest checkpoint is '"), std::string::npos) << lost.err;
  const std::string typed = between(lost.err, "; to resume from it: ", "\n");
  ASSERT_NE(typed, "") << lost.err;
  const Outcome gone_on = run_command({"/usr/bin/env", path, "/bin/sh", "-c", "exec " + typed});
  ASSERT_EQ(gone_on.code, 0) << typed << '\n' << gone_on.err;
  EXPECT_GE(events(gone_on, "resume").at(0).at("step"), 1);
  EXPECT_TRUE(weights() == expected) << "the weights differ";
}

TEST_F(GoingOnTest, ACheckpointOfAnotherOptimizerIsRefusedAsSuch) {
  ASSERT_EQ(run({}).code, 0);
  const Outcome refused =
      run({"train.optimizer={ type = \"adam\", learning_rate = 0.001 }"}, {"--resume", "--allow-change", "train.optimizer"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_MESSAGE(refused.err);
}

TEST_F(GoingOnTest, OtherDataIsRefusedByItsChanges) {
  fs::copy(shapes(), folder_ / "own", fs::copy_options::recursive);
  const fs::path train = folder_.path() / "own" / "train";
  const Words set = {"data.path=" + (folder_ / "own")};
  ASSERT_EQ(run(set).code, 0);
  std::vector<fs::path> classes;
  for (const auto& entry : fs::directory_iterator(train)) classes.push_back(entry.path());
  std::sort(classes.begin(), classes.end());
  fs::remove(fs::directory_iterator(classes.back())->path());
  EXPECT_MESSAGE(refused(run(set, {"--resume"})));
  const Outcome allowed = succeeded(run(set, {"--resume", "--check", "--allow-change", "train.read.samples"}));
  for (const char* part : {"train", "test"}) {
    fs::rename(folder_.path() / "own" / part / classes.front().filename(), folder_.path() / "own" / part / "aaa");
  }
  EXPECT_MESSAGE(refused(run(set, {"--resume"})));
}

TEST_F(GoingOnTest, AnObserverMayAskForACheckpoint) {
  const std::string path = fmt::format("MILLRACE_PLUGIN_PATH={}/tests/listeners", MILLRACE_BINARY_DIR);
  const auto asked = [&](const Words& set) { return run_command(with({"/usr/bin/env", path}, {}, command(set))); };
  const std::string ask = "observe.asker={ask=\"checkpoint\", at=2}";
  const Outcome outcome = succeeded(asked({ask, "checkpoint.every=end"}));
  const auto written = events(outcome, "checkpoint");
  ASSERT_EQ(written.size(), 2U) << outcome.err;
  EXPECT_GE(written[0].at("step"), 2);
  EXPECT_EQ(written[1].at("step"), 12);
  const Outcome without = succeeded(asked({ask, "checkpoint.every=never"}));
  EXPECT_NE(without.err.find("observer asker requested checkpoint, which was refused: the run writes no checkpoints\n"),
            std::string::npos)
      << without.err;
}

TEST_F(GoingOnTest, AFileThatMayGrowNoMoreIsAnErrorAndNoSignal) {
  const Outcome outcome = run_command(with({"/bin/sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"}, {}, command({})));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("File too large"), std::string::npos) << outcome.err;
}

TEST_F(GoingOnTest, TheLimitOfProcessorTimeEndsTheRunWithACheckpoint) {
  RunningProgram program(
      with({"/bin/sh", "-c", "ulimit -St 5; exec \"$@\"", "sh"}, {}, command({"run.epochs=100000", "checkpoint.every=end"})));
  ASSERT_TRUE(program.ends(kPatience)) << program.err();
  EXPECT_EQ(program.code(), 128 + SIGXCPU) << program.err();
  EXPECT_NE(program.out().find("\"event\":\"checkpoint\""), std::string::npos) << program.err();
  EXPECT_NE(program.err().find("\nto resume: "), std::string::npos) << program.err();
}

// Each second of processor time after the limit sends another signal. The end waits for a slow observer.
TEST_F(GoingOnTest, FurtherSignalsOfProcessorTimeAreNoSecondRequest) {
  RunningProgram program(command({"run.epochs=100000", "checkpoint.every=end", "observe.slow.seconds=0.5"}),
                         {fmt::format("MILLRACE_PLUGIN_PATH={}/tests/listeners", MILLRACE_BINARY_DIR)});
  ASSERT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
  for (int i = 0; i < 600 && !program.ends(0.1); ++i) program.send(SIGXCPU);
  ASSERT_TRUE(program.ends(0)) << program.err();
  EXPECT_EQ(program.code(), 128 + SIGXCPU) << program.err();
  EXPECT_NE(program.out().find("\"event\":\"checkpoint\""), std::string::npos) << program.err();
  EXPECT_EQ(program.err().find("second signal"), std::string::npos) << program.err();
}

TEST_F(GoingOnTest, ASignalThatWasIgnoredFromTheStartStaysSo) {
  RunningProgram program(with({"/bin/sh", "-c", "trap '' INT TERM USR1; exec \"$@\"", "sh"}, {},
                              command({"run.epochs=100000", "checkpoint.every=end"})));
  ASSERT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) program.send(signal);
  program.send(SIGHUP);
  ASSERT_TRUE(program.ends(kPatience)) << program.err();
  EXPECT_EQ(program.code(), 128 + SIGHUP) << program.err();
  Outcome outcome;
  outcome.out = program.out();
  EXPECT_EQ(events(outcome, "checkpoint").size(), 1U) << "that of the end";
}

// How long training paused for each checkpoint, in steps: 1 is a usual step of the same run.
std::vector<double> steps_that_training_stood_still(const Outcome& outcome) {
  const auto steps = events(outcome, "step");
  std::vector<double> seconds, stood_still;
  for (std::size_t i = 1; i < steps.size(); ++i)
    seconds.push_back(steps[i].at("elapsed_seconds").get<double>() - steps[i - 1].at("elapsed_seconds").get<double>());
  std::sort(seconds.begin(), seconds.end());
  for (const auto& each : events(outcome, "checkpoint"))
    stood_still.push_back(each.at("stood_still_seconds").get<double>() / seconds.at(seconds.size() / 2));
  return stood_still;
}

// Long steps: a checkpoint copies few weights. A busy machine or its disk may delay one of them, but not in each run.
TEST_F(GoingOnTest, TrainingStandsStillForLessThanAStep) {
  write_network(R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "conv", out = 48, kernel = 3 }, { op = "relu" }, { op = "conv", out = 48, kernel = 3 }, { op = "relu" },
           { op = "conv", out = 48, kernel = 3 }, { op = "global_average_pool" }, { op = "linear", out = "${classes}" } ]
)");
  std::vector<double> stood_still;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const Outcome outcome = succeeded(run({"run.epochs=2", "checkpoint.every=2 steps"}));
    ASSERT_EQ(events(outcome, "step").size(), 8U);
    EXPECT_NE(outcome.err.find(" (training paused for "), std::string::npos) << outcome.err;
    stood_still = steps_that_training_stood_still(outcome);
    ASSERT_EQ(stood_still.size(), 4U);
    if (std::ranges::max(stood_still) < 1) return;
  }
  ADD_FAILURE() << "in steps: " << testing::PrintToString(stood_still);
}

}  // namespace
}  // namespace millrace::test
