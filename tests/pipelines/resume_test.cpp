// A resumed run ends as if it had never stopped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "command.h"
#include "running_program.h"
#include "testkit/messages.h"

namespace millrace::test::resume_test {
namespace {

namespace fs = std::filesystem;

// Its statistics differ between replicas, and dropout draws.
constexpr const char* kNetwork = R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "conv", out = 8, kernel = 3, stride = 2 }, { op = "batch_norm" }, { op = "relu" },
           { op = "dropout", probability = 0.3 }, { op = "conv", out = 8, kernel = 3, stride = 2 },
           { op = "global_average_pool" }, { op = "linear", out = "${classes}" } ]
)";

struct Setting {
  std::string name;
  std::vector<std::string> set = {};
  std::vector<std::string> options = {};
  std::vector<std::string> resumed_options = {};  // if they differ
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

// quickstart.toml made small: 3 epochs of 4 steps; checkpoints after 5, 10 and 12.
class ResumeTest : public testing::TestWithParam<Setting> {
 protected:
  ResumeTest() { std::ofstream(folder_ / "network.toml") << kNetwork; }

  Words command(const std::string& runs, const Words& set, const Words& options = {}) const {
    return with(with({tool("pipeline-run"), pipeline("quickstart.toml"), "--json"},
                     {"data.path=" + shapes(), "network.use=" + (folder_ / "network.toml"), "run.folder=" + (folder_ / runs),
                      "run.epochs=3", "checkpoint.every=5 steps", "checkpoint.keep=10"}),
                set, options);
  }
  Outcome run(const std::string& runs, const Words& set, const Words& options = {}) const {
    return run_command(command(runs, set, options));
  }

  fs::path run_in(const std::string& runs) const { return newest_run(folder_.path() / runs); }
  std::string weights_in(const std::string& runs) const {
    return read_file(find_file(folder_.path() / runs, "weights.safetensors"));
  }
  void copy_back_to(std::uint64_t step, const std::string& from, const std::string& to) const {
    test::copy_back_to(step, folder_.path() / from, folder_.path() / to);
  }

  const TemporaryFolder folder_;
};

// The resumed run reports the same steps, epochs and passes as the whole run.
void expect_the_same(const Outcome& whole, const Outcome& resumed, const std::string& event, std::size_t count,
                     double tolerance) {
  const auto all = events(whole, event), rest = events(resumed, event);
  ASSERT_EQ(rest.size(), count) << event;
  ASSERT_GE(all.size(), count) << event;
  for (std::size_t i = 0; i < count; ++i) {
    const nlohmann::json &a = all[all.size() - count + i], &b = rest[i];
    EXPECT_EQ(a.at("step"), b.at("step")) << event;
    EXPECT_NEAR(a.at("loss"), b.at("loss"), tolerance) << event << ' ' << i;
    for (const char* key : {"learning_rate", "accuracy", "stream_hash", "samples"}) {
      if (a.contains(key)) {
        EXPECT_EQ(a.at(key), b.at(key)) << event << ' ' << i << ' ' << key;
      }
    }
  }
}

TEST_P(ResumeTest, EndsAsIfItHadNotStopped) {
  const Setting& setting = GetParam();
  const Outcome whole = run("whole", setting.set, setting.options);
  if (lacks_bf16(whole)) GTEST_SKIP() << whole.err;
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::size_t best = setting.name == "average" ? 2 : 0;  // validations after 4 and 8
  ASSERT_EQ(events(whole, "checkpoint").size(), 3U + best) << whole.err;
  copy_back_to(5, "whole", "stopped");
  std::vector<std::string> options = setting.resumed_options.empty() ? setting.options : setting.resumed_options;
  options.insert(options.end(), {"--resume", run_in("stopped")});
  const Outcome resumed = succeeded(run("stopped", setting.set, options));
  EXPECT_EQ(resumed.err.find("cannot be used"), std::string::npos) << resumed.err;
  const double tolerance = setting.resumed_options.empty() ? 0 : 1e-9;  // processes sum values in another order
  expect_the_same(whole, resumed, "step", 7, tolerance);
  expect_the_same(whole, resumed, "epoch", 2, tolerance);
  expect_the_same(whole, resumed, "validate", 2, tolerance);
  EXPECT_EQ(events(resumed, "resume").at(0).at("step"), 5);
  ASSERT_FALSE(weights_in("whole").empty());
  EXPECT_TRUE(weights_in("whole") == weights_in("stopped")) << "the weights differ";
}

const std::string kCycle = "learning_rate={initial=0.01, schedule=\"one_cycle\", cycle_momentum=true}";
const std::string kMicro = "train.forward_backward.micro_batches=3";
INSTANTIATE_TEST_SUITE_P(
    All, ResumeTest,
    testing::Values(Setting{"momentum"}, Setting{"two_replicas", {}, {"--devices", "cpu*2"}},
                    Setting{"two_processes", {}, {"--devices", "cpu*2"}, {"--devices", "cpu*2", "--processes", "2"}},
                    Setting{"adamw_in_a_cycle", {"train.optimizer={type=\"adamw\", " + kCycle + "}"}},
                    Setting{"adafactor", {"train.optimizer={type=\"adafactor\", learning_rate=0.05}"}},
                    Setting{"average", {"train.optimizer.ema={decay=0.5, every=2}", "run.best=validate.loss"}},
                    Setting{"average_that_has_not_begun", {"train.optimizer.ema={decay=0.5, every=7}"}},
                    Setting{"lookahead", {"train.optimizer.lookahead={every=2}"}},
                    Setting{"bfloat16_in_pieces", {"run.precision=bf16", kMicro}}),
    [](const auto& test) { return test.param.name; });

TEST_F(ResumeTest, TheSameCommandBeginsAndGoesOnAndHasNothingLeft) {
  const std::vector<std::string> set = {"checkpoint.resume=auto"};
  const Outcome first = succeeded(run("runs", set));
  EXPECT_EQ(events(first, "start").size(), 1U);
  const std::string weights = weights_in("runs");
  copy_back_to(10, "runs", "stopped");
  const Outcome second = succeeded(run("stopped", set));
  EXPECT_EQ(events(second, "resume").at(0).at("step"), 10);
  EXPECT_EQ(events(second, "step").size(), 2U);
  EXPECT_TRUE(weights == weights_in("stopped"));
  const Outcome third = succeeded(run("stopped", set));
  EXPECT_EQ(events(third, "resume").at(0).at("step"), 12);
  EXPECT_EQ(events(third, "step").size(), 0U);
  EXPECT_TRUE(weights == weights_in("stopped"));

  // The run's files are continued: each line is whole, and discarded ones precede the line that discards them.
  std::istringstream lines(read_file(run_in("stopped") / "metrics.jsonl"));
  std::vector<std::string> marks;
  std::size_t steps = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json event = nlohmann::json::parse(line);
    if (event.at("event") == "start" || event.at("event") == "resume") marks.push_back(event.at("event"));
    steps += event.at("event") == "step" ? 1 : 0;
  }
  EXPECT_EQ(marks, (std::vector<std::string>{"start", "resume", "resume"}));
  EXPECT_EQ(steps, 14U);
}

TEST_F(ResumeTest, ACheckpointMayBeChosen) {
  ASSERT_EQ(run("whole", {}).code, 0);
  fs::copy(folder_.path() / "whole", folder_.path() / "again", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const fs::path chosen = run_in("again") / "checkpoints" / "step-000000005";
  const Outcome resumed = succeeded(run("again", {}, {"--resume", chosen}));
  EXPECT_EQ(events(resumed, "resume").at(0).at("step"), 5);
  EXPECT_NE(resumed.err.find(fmt::format("resumes from step 5: {}\n", chosen.string())), std::string::npos) << resumed.err;
  EXPECT_TRUE(weights_in("whole") == weights_in("again")) << "the weights differ";
  EXPECT_MESSAGE(refused(run("again", {}, {"--resume", run_in("again") / "checkpoints" / "step-000000007"})));
}

// 2 steps per epoch instead of 4. 6 of 12 steps are done: a whole batch of 200 samples after the first epoch.
TEST_F(ResumeTest, WithAnotherBatchARunGoesOnBehindTheSameSample) {
  ASSERT_EQ(run("runs", {"checkpoint.every=6 steps"}).code, 0);
  const Outcome resumed =
      run("runs", {"train.batch.size=200", "checkpoint.every=1 step"},
          {"--resume", run_in("runs") / "checkpoints" / "step-000000006", "--allow-change", "train.batch.size"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("a second time"), std::string::npos) << resumed.err;
  EXPECT_EQ(events(resumed, "resume").at(0).at("step"), 6);
  EXPECT_EQ(events(resumed, "resume").at(0).at("first_step"), 4);
  std::vector<std::uint64_t> written;
  for (const auto& checkpoint : events(resumed, "checkpoint")) written.push_back(checkpoint.at("step"));
  EXPECT_EQ(written, (std::vector<std::uint64_t>{4, 5, 6})) << "6 again: it is another step";
}

// 5 of 12 steps are done: half a batch of 200 samples after the first epoch.
TEST_F(ResumeTest, WithAnotherBatchOneThatIsDoneInPartIsMadeAgain) {
  ASSERT_EQ(run("runs", {}).code, 0);
  const Outcome resumed =
      run("runs", {"train.batch.size=200"},
          {"--resume", run_in("runs") / "checkpoints" / "step-000000005", "--allow-change", "train.batch.size"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("batches hold 200 samples now, and 100 before: 100 samples of epoch 2 are trained on a second time"),
            std::string::npos)
      << resumed.err;
  EXPECT_EQ(events(resumed, "resume").at(0).at("step"), 5);
  EXPECT_EQ(events(resumed, "resume").at(0).at("first_step"), 3);
  EXPECT_EQ(events(resumed, "epoch").at(0).at("step"), 4);
}

// 5 of 12 steps are done: one of the second epoch. Its sums were once added to those of the other loss.
TEST_F(ResumeTest, WithAnotherLossAnEpochsFiguresAreOfThatLossAlone) {
  ASSERT_EQ(run("runs", {}).code, 0);
  const Outcome resumed =
      run("runs", {"train.forward_backward.loss={type=\"cross_entropy\", label_smoothing=0.9}"},
          {"--resume", run_in("runs") / "checkpoints" / "step-000000005", "--allow-change", "train.forward_backward.loss"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("the loss has changed: figures of epoch 2 leave out its first 1 step"), std::string::npos)
      << resumed.err;
  double sum = 0;
  for (const auto& step : events(resumed, "step")) sum += step.at("step") <= 8 ? double(step.at("loss")) : 0;
  EXPECT_NEAR(events(resumed, "epoch").at(0).at("loss"), sum / 3, 1e-6);
}

TEST_F(ResumeTest, CheckpointsElsewhereAreFoundWithoutTheRunsFolder) {
  const std::string elsewhere = "checkpoint.folder=" + (folder_ / "elsewhere");
  const std::vector<std::string> set = {elsewhere, "run.name=x/y"};
  ASSERT_EQ(run("whole", set).code, 0);
  const fs::path place = folder_.path() / "elsewhere" / "x" / "y";
  ASSERT_TRUE(fs::exists(place));
  fs::copy(folder_.path() / "whole", folder_.path() / "kept", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::remove_all(folder_.path() / "whole");
  const Outcome resumed = succeeded(run("whole", set, {"--resume"}));
  EXPECT_EQ(events(resumed, "resume").at(0).at("step"), 12);
  EXPECT_NE(resumed.err.find(": the run is complete\n"), std::string::npos) << resumed.err;
  EXPECT_TRUE(weights_in("kept") == weights_in("whole"));
}

TEST_F(ResumeTest, WhereItWasLookedIsSaid) {
  ASSERT_EQ(run("runs", {}).code, 0);
  const std::string elsewhere = folder_ / "elsewhere", place = "checkpoint.folder=" + elsewhere;
  const std::string said = fmt::format("no run in '{}' has a checkpoint in checkpoint.folder = \"{}\"\n",
                                       run_in("runs").parent_path().string(), elsewhere);
  const Outcome refused = run("runs", {place}, {"--resume"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--resume: " + said), std::string::npos) << refused.err;
  const Outcome begun = succeeded(run("runs", {place, "checkpoint.resume=auto"}));
  EXPECT_NE(begun.err.find("warning: a new run begins: " + said), std::string::npos) << begun.err;
}

TEST_F(ResumeTest, ANameStaysBelowTheFolderOfRuns) {
  for (const char* name : {"..", ".", "x/../..", "/tmp"}) {
    const Outcome outcome = run("runs", {fmt::format("run.name=\"{}\"", name)});
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_NE(outcome.err.find(fmt::format("run.name = \"{}\" leaves run.folder: a name is ", name)), std::string::npos)
        << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "runs"));
  EXPECT_NE(run("runs", {"run.folder=~/runs"}).err.find("run.folder = \"~/runs\" would be a folder named ~"), std::string::npos);
}

TEST_F(ResumeTest, AFolderOfCheckpointsIsNoRunAndNoCheckpoint) {
  const std::string then = folder_ / "elsewhere";
  ASSERT_EQ(run("runs", {}).code, 0);
  const std::string named = run_in("runs"), checkpoints = named + "/checkpoints";
  for (const Words& options :
       {Words{"--resume", checkpoints}, Words{"--resume", checkpoints + "/"}, Words{"--explain-nan", checkpoints}}) {
    for (const Words& set : {Words{}, Words{"checkpoint.folder=" + then}}) {
      const Outcome outcome = run("runs", set, options);
      EXPECT_EQ(outcome.code, 2);
      EXPECT_NE(outcome.err.find(fmt::format("{0}: '{1}' holds the checkpoints of a run: name the run, '{2}', or one of them, "
                                             "'{1}/step-...'",
                                             options.front(), checkpoints, named)),
                std::string::npos)
          << outcome.err;
    }
  }
}

TEST_F(ResumeTest, WhatIsNotThereIsSaid) {
  const Outcome none = run("runs", {}, {"--resume"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("runs/quickstart' has a checkpoint"), std::string::npos) << none.err;
  EXPECT_MESSAGE(refused(run("runs", {}, {"--resume", "--from", "2"})));
  fs::create_directories(folder_.path() / "empty");
  for (const char* option : {"--resume", "--explain-nan"}) {
    for (const std::string& folder : {std::string("no/run"), folder_ / "empty"}) {
      const Outcome no_run = run("runs", {}, {option, folder});
      EXPECT_EQ(no_run.code, 2);
      EXPECT_NE(no_run.err.find(fmt::format("{}: '{}' is not a folder of a run", option, folder)), std::string::npos)
          << no_run.err;
    }
  }
  EXPECT_MESSAGE(refused(run("runs", {"run.folder="})));
}

constexpr double kPatience = 60;  // seconds, for busy machines

// A run that is signalled after its first step.
Outcome signalled(const std::vector<std::string>& words, int signal) {
  RunningProgram program(words);
  EXPECT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
  program.send(signal);
  Outcome outcome;
  if (program.ends(kPatience)) outcome.code = program.code();
  outcome.out = program.out();
  outcome.err = program.err();
  return outcome;
}

TEST_F(ResumeTest, ASignalWritesACheckpointAndEndsTheRun) {
  const std::vector<std::pair<int, int>> codes = {{SIGTERM, 143}, {SIGHUP, 129}, {SIGUSR2, 143}, {SIGXCPU, 152}};
  std::uint64_t done = 0;
  for (const auto& [signal, code] : codes) {
    const Outcome outcome =
        signalled(command("runs", {"run.epochs=100000", "checkpoint.every=end", "checkpoint.resume=auto"}), signal);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    const auto written = events(outcome, "checkpoint"), ends = events(outcome, "end"), resumed = events(outcome, "resume");
    ASSERT_EQ(written.size(), 1U) << signal;
    ASSERT_EQ(ends.size(), 1U) << signal;
    EXPECT_EQ(written[0].at("step"), ends[0].at("step"));
    EXPECT_TRUE(fs::exists(fs::path(std::string(written[0].at("path"))) / "manifest.json"));
    if (done > 0) {
      ASSERT_EQ(resumed.size(), 1U) << signal;
      EXPECT_EQ(resumed[0].at("step"), done);
    }
    done = ends[0].at("step");
    EXPECT_FALSE(weights_in("runs").empty());
  }
}

TEST_F(ResumeTest, SigUsr1WritesACheckpointAndTheRunGoesOn) {
  RunningProgram program(command("runs", {"run.epochs=100000", "checkpoint.every=end"}));
  ASSERT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
  program.send(SIGUSR1);
  const std::string checkpoint = "\"event\":\"checkpoint\",\"step\":", behind_it = ",\"path\":";
  ASSERT_TRUE(program.says(behind_it, kPatience)) << program.err();
  const std::string said = program.out();
  const std::uint64_t step = std::stoull(said.substr(said.find(checkpoint) + checkpoint.size()));
  // The next step must not be done while waiting for images: else the checkpoint would also be the final one.
  ASSERT_TRUE(program.says(fmt::format("\"step\":{},", step + 1), kPatience)) << program.err();
  program.send(SIGTERM);
  ASSERT_TRUE(program.ends(kPatience)) << program.err();
  Outcome outcome;
  outcome.out = program.out();
  const auto written = events(outcome, "checkpoint"), ends = events(outcome, "end");
  ASSERT_EQ(written.size(), 2U) << "on request, and at the end";
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_LT(written[0].at("step"), ends[0].at("step"));
  EXPECT_EQ(written[1].at("step"), ends[0].at("step"));
}

TEST_F(ResumeTest, TheBestIsKept) {
  const Outcome outcome = succeeded(run("runs", {"checkpoint.every=end", "checkpoint.keep=1", "checkpoint.best=validate.loss"}));
  double best = 1e9;
  std::uint64_t step = 0;
  for (const auto& pass : events(outcome, "validate")) {
    if (pass.at("loss") >= best) continue;
    best = pass.at("loss");
    step = pass.at("step");
  }
  const fs::path checkpoints = run_in("runs") / "checkpoints";
  const std::string name = fmt::format("step-{:09}", step);
  EXPECT_EQ(read_file(checkpoints / "best"), name + "\n");
  EXPECT_TRUE(fs::exists(checkpoints / name / "manifest.json"));
  EXPECT_EQ(read_file(checkpoints / "latest"), "step-000000012\n");
}

// "validate.loss": the metric of the file's best weights.
std::string figure_of_best(const fs::path& file) {
  const std::string text = read_file(file);
  const std::size_t at = text.find("validate.");
  return at == std::string::npos ? std::string() : text.substr(at, text.find_first_of("\\\"", at) - at);
}

TEST_F(ResumeTest, AnotherBestIsRefusedAndTheOldOneIsSetAsideWhereItIsAllowed) {
  ASSERT_EQ(run("runs", {"run.best=validate.accuracy", "stop.max_steps=8"}).code, 0);
  const fs::path folder = run_in("runs");
  const std::vector<std::string> resume = {"--resume", folder, "--allow-change", "stop"};
  EXPECT_MESSAGE(refused(run("runs", {"run.best=validate.loss"}, resume)));
  EXPECT_EQ(figure_of_best(folder / "best.safetensors"), "validate.accuracy");

  std::vector<std::string> allowed = resume;
  allowed.insert(allowed.end(), {"--allow-change", "run.best"});
  const Outcome outcome = succeeded(run("runs", {"run.best=validate.loss"}, allowed));
  EXPECT_EQ(figure_of_best(folder / "best.safetensors"), "validate.loss");
  EXPECT_NE(outcome.err.find("; the next value counts as the best"), std::string::npos) << outcome.err;
  std::size_t aside = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (!file.path().filename().string().starts_with("best-step-")) continue;
    ++aside;
    EXPECT_EQ(figure_of_best(file.path()), "validate.accuracy");
  }
  EXPECT_EQ(aside, 1U);
}

// A later version of a base file may name another metric than the run began with.
TEST_F(ResumeTest, TheBestStaysByTheMetricThatTheRunBeganWith) {
  fs::create_directory(folder_.path() / "recipes");
  const fs::path base = folder_.path() / "recipes" / "mine.toml";
  const auto write = [&](const std::string& best) {
    std::ofstream(base) << "extends = \"" << pipeline("quickstart.toml") << "\"\n[run]\nbest = \"" << best << "\"\n";
    std::ofstream(folder_ / "p.toml") << "extends = \"mine\"\n";
  };
  const auto run_mine = [&](const Words& options) {
    Words words = command("runs", {}, options);
    words[1] = folder_ / "p.toml";
    return run_command(words);
  };
  write("validate.accuracy");
  ASSERT_EQ(run_mine({"--set", "stop.max_steps=8"}).code, 0);
  write("validate.mean_accuracy");
  const fs::path folder = run_in("runs");
  const Outcome outcome = succeeded(run_mine({"--resume", folder, "--allow-change", "stop"}));
  EXPECT_NE(outcome.err.find("the best weights are still chosen by validate.accuracy, as when the run began"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(figure_of_best(folder / "best.safetensors"), "validate.accuracy");
}

TEST_F(ResumeTest, WeightsToBeginWithHaveNoEffectAndAreNotRecorded) {
  ASSERT_EQ(run("whole", {}).code, 0);
  copy_back_to(5, "whole", "stopped");
  const fs::path other = folder_.path() / "other.safetensors";
  fs::copy_file(find_file(folder_.path() / "whole", "weights.safetensors"), other);
  const Outcome resumed = succeeded(run("stopped", {"network.weights=" + other.string()}, {"--resume", run_in("stopped")}));
  EXPECT_NE(
      resumed.err.find(
          "network.weights has no effect: the run resumes with the weights of its checkpoint, after it began with new values"),
      std::string::npos)
      << resumed.err;
  EXPECT_TRUE(weights_in("whole") == weights_in("stopped"));
  EXPECT_EQ(read_file(run_in("stopped") / "pipeline.toml").find("other.safetensors"), std::string::npos);
  EXPECT_EQ(read_file(run_in("stopped") / "card.md").find("began from"), std::string::npos);
}

// Its devices, its name.
TEST_F(ResumeTest, AFolderKnowsWhatOptionsSaid) {
  ASSERT_EQ(run("runs", {}, {"--devices", "cpu*2", "--name", "named"}).code, 0);
  const std::string pipeline = read_file(run_in("runs") / "pipeline.toml");
  EXPECT_NE(pipeline.find("\"cpu*2\""), std::string::npos) << pipeline;
  EXPECT_NE(pipeline.find("\"named\""), std::string::npos) << pipeline;
  const Outcome resumed = succeeded(run_command({tool("pipeline-run"), "--resume", run_in("runs")}));
}

TEST_F(ResumeTest, ARunThatStopHasEndedIsOver) {
  const std::vector<std::string> set = {"checkpoint.resume=auto",    "run.epochs=40",   "run.best=validate.loss",
                                        "stop.figure=validate.loss", "stop.patience=1", "stop.threshold=10"};
  const Outcome first = succeeded(run("runs", set));
  ASSERT_EQ(events(first, "epoch").size(), 2U) << "the second validation is no better by the threshold";
  const std::string weights = weights_in("runs"), metrics = read_file(run_in("runs") / "metrics.jsonl");
  const Outcome second = succeeded(run("runs", set));
  EXPECT_EQ(events(second, "step").size(), 0U);
  EXPECT_EQ(events(second, "validate").size(), 0U);
  EXPECT_TRUE(weights == weights_in("runs"));
}

TEST_F(ResumeTest, WeightsOfARunThatWasResumedAndHasNotEndedAreNamedWithTheirStep) {
  ASSERT_EQ(run("runs", {}).code, 0);
  const fs::path folder = run_in("runs");
  const auto measure = [&] { return run_command({tool("pipeline-run"), "--graph", "validate", "--weights", folder}); };
  const Outcome ended = measure();
  EXPECT_NE(ended.err.find("weights.safetensors', after step 12\n"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("has a checkpoint of step"), std::string::npos) << ended.err;
  fs::copy(folder / "checkpoints/step-000000012", folder / "checkpoints/step-000000020", fs::copy_options::recursive);
  std::ofstream(folder / "checkpoints/latest") << "step-000000020\n";
  const Outcome resumed = succeeded(measure());
  EXPECT_NE(resumed.err.find("is from step 12, and the run has a checkpoint of step 20"), std::string::npos) << resumed.err;
}

}  // namespace
}  // namespace millrace::test::resume_test
