// Guarantees of observers over a whole run: nothing is lost, every wait is reported, and requests are carried out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "checkpoint/checkpoint.h"
#include "command.h"
#include "millrace/observer.h"
#include "running_program.h"
#include "weights/safetensors.h"

namespace millrace::test::observers_test {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<nlohmann::json>;

class WithListeners {
 public:
  WithListeners() { setenv("MILLRACE_PLUGIN_PATH", MILLRACE_BINARY_DIR "/tests/listeners", 1); }  // NOLINT: one thread
  ~WithListeners() { unsetenv("MILLRACE_PLUGIN_PATH"); }                                          // NOLINT
};

std::vector<std::string> command(const std::string& folder, const std::vector<std::string>& set, const std::string& data) {
  return with({tool("pipeline-run"), pipeline("quickstart.toml"), "--set", "run.folder=" + folder, "--set", "data.path=" + data},
              set);
}

// quickstart.toml on a few images, with the test's observers available.
Outcome quickstart(const std::string& folder, const std::vector<std::string>& set, const std::string& data = shapes()) {
  const WithListeners listeners;
  Interruption patience;
  patience.limit = 240;
  return run_command(command(folder, set, data), patience);
}

// Runs without an end until it reports an epoch; then sends a signal.
Outcome interrupted(const std::string& folder, int epoch, int signal) {
  const WithListeners listeners;
  RunningProgram program(command(folder, {"run.epochs=100000", "train.batch.size=20"}, shapes()));
  EXPECT_TRUE(program.reports(fmt::format("train: epoch {}/", epoch), 240)) << program.err();
  program.send(signal);
  Outcome outcome;
  if (program.ends(240)) outcome.code = program.code();
  outcome.err = program.err();
  return outcome;
}

// The only run in the folder.
fs::path run_in(const std::string& folder) { return newest_run(folder); }

// Leaves out a line that a killed program did not finish.
Lines metrics_in(const std::string& folder) {
  Lines lines;
  std::ifstream file(run_in(folder) / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    if (!file.eof()) lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

Lines of(const Lines& lines, const std::string& event) {
  Lines found;
  for (const auto& line : lines) {
    if (line.at("event") == event) found.push_back(line);
  }
  return found;
}

void expect_every_step(const Lines& lines) {
  const Lines steps = of(lines, "step");
  ASSERT_FALSE(steps.empty());
  for (std::size_t s = 0; s < steps.size(); ++s) ASSERT_EQ(steps[s].at("step"), s + 1);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Observers, MetricsAreWholeAfterSigterm) {
  const TemporaryFolder folder;
  const Outcome outcome = interrupted(folder / "runs", 2, SIGTERM);
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  const Lines lines = metrics_in(folder / "runs");
  expect_every_step(lines);
  EXPECT_EQ(lines.front().at("event"), "start");
  EXPECT_EQ(lines.back().at("event"), "end");
  EXPECT_EQ(lines.back().at("signal"), SIGTERM);
  EXPECT_EQ(lines.back().at("step"), of(lines, "step").size());
  EXPECT_NE(outcome.err.find("stopping after the current step; another signal stops at once\n"), std::string::npos)
      << outcome.err;
}

// The epochs that the console has reported as finished. A slow run also reports progress: "train: epoch 3/5  step 41/60".
std::size_t epochs_said(const std::string& text) {
  static const std::regex over("train: epoch [^\n]*  stream [0-9a-f]{16}[^\n]*\n");
  return static_cast<std::size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), over), std::sregex_iterator()));
}

// Every reported epoch, except perhaps the last, is in the file with all its steps and its validation.
TEST(Observers, MetricsAreWholeUpToTheLastBoundaryAfterAKill) {
  const TemporaryFolder folder;
  const Outcome outcome = interrupted(folder / "runs", 3, SIGKILL);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::size_t said = epochs_said(outcome.err);
  ASSERT_GT(said, 1U) << outcome.err;
  const Lines lines = metrics_in(folder / "runs");
  expect_every_step(lines);
  EXPECT_GE(of(lines, "epoch").size(), said - 1);
  EXPECT_GE(of(lines, "validate").size(), said - 2);
  EXPECT_GE(of(lines, "step").size(), 20 * (said - 1));
}

TEST(Observers, OneThatTakesTheLatestCostsTheRunNothing) {
  const std::vector<std::string> set = {"run.epochs=2", "train.batch.size=10"};
  const Outcome alone = succeeded(quickstart("", set));
  std::vector<std::string> with = set;
  with.emplace_back("observe.slow_page.seconds=1");
  const Outcome beside = succeeded(quickstart("", with));
  EXPECT_LT(beside.awake_seconds, 1.5 * alone.awake_seconds + 10)
      << "alone " << alone.awake_seconds << " s; 80 steps would sleep for 80 s";
}

TEST(Observers, OneThatMustHearAllIsWaitedForAtABoundaryAndNamed) {
  const TemporaryFolder folder;
  const std::string waits = folder / "waits";
  const Outcome outcome =
      quickstart("", {"run.epochs=1", "train.batch.size=20", "observe.slow={seconds=0.1, until_waited_for=true}",
                      "observe.notes_waits.file=" + waits});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(outcome.seconds, 2);  // 20 steps
  EXPECT_NE(read_file(waits).find("step 20/20 waits for observer slow\n"), std::string::npos) << read_file(waits);
}

TEST(Observers, TheGateClosesForOneThatIsTooFarBehind) {
  const TemporaryFolder folder;
  const Outcome made =
      succeeded(run_command({tool("pipeline-data"), "shapes", folder / "many", "--count", "1200", "--validation", "10"}));
  std::ofstream(folder / "tiny.toml") << R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "global_average_pool" }, { op = "linear", out = "${classes}" } ]
)";
  const Outcome outcome =
      quickstart("",
                 {"run.epochs=1", "train.batch.size=1", "validate.every=end", "network.use=" + (folder / "tiny.toml"),
                  "observe.slow={seconds=0, until_waited_for=true}", "observe.notes_waits.file=" + (folder / "waits")},
                 folder / "many");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string waits = read_file(folder / "waits");
  std::smatch held;
  ASSERT_TRUE(std::regex_search(waits, held, std::regex("step (1[0-9]{3})/1200 waits for observer slow"))) << waits;
  EXPECT_LT(std::stoi(held[1]), 1200);
}

// Its checkpoint records that the earlier process took a day for five steps. At boundaries the run waits for the slow observer,
// and there is a tick.
TEST(Observers, TheTimeLeftOfARunThatGoesOnComesFromItsOwnSteps) {
  const TemporaryFolder folder;
  std::vector<std::string> set = {"run.epochs=1", "train.batch.size=10", "checkpoint.every=5 steps", "checkpoint.keep=10",
                                  "checkpoint.resume=auto"};
  const Outcome whole = succeeded(quickstart(folder / "runs", set));
  copy_back_to(5, folder.path() / "runs", folder.path() / "stopped");
  const fs::path checkpoints = newest_run(folder.path() / "stopped") / "checkpoints";
  Checkpoint checkpoint = read_checkpoint(checkpoints / checkpoint_name(5));
  ASSERT_EQ(checkpoint.state.so_far.samples, 50);
  checkpoint.state.so_far.seconds = 86400;
  write_checkpoint(checkpoints, checkpoint);
  set.insert(set.end(), {"observe.slow.seconds=0.05", "observe.notes_pace.file=" + (folder / "pace")});
  const Outcome resumed = succeeded(quickstart(folder / "stopped", set));
  ASSERT_NE(resumed.err.find("resumes from step 5: "), std::string::npos) << resumed.err;
  std::ifstream lines(folder / "pace");
  double fastest = 0;
  for (double step = 0, images_per_second = 0, seconds_left = 0; lines >> step >> images_per_second >> seconds_left;) {
    EXPECT_LT(seconds_left, 3600) << "at step " << step;
    fastest = std::max(fastest, images_per_second);
  }
  EXPECT_GT(fastest, 0.1) << "images/s; some tick must have come";
}

// As above; no stage of the graph reports its loss.
TEST(Observers, TheRateOfAnEpochThatGoesOnIsThatOfItsWholeTime) {
  const TemporaryFolder folder;
  std::vector<std::string> set = {"run.epochs=1",
                                  "train.batch.size=10",
                                  "checkpoint.every=5 steps",
                                  "checkpoint.keep=10",
                                  "checkpoint.resume=auto",
                                  R"(train.flow=["read", "decode_image", "augment", "batch", "forward_backward", "allreduce",)"
                                  R"( "optimizer"])"};
  const Outcome whole = succeeded(quickstart(folder / "runs", set));
  copy_back_to(5, folder.path() / "runs", folder.path() / "stopped");
  const fs::path checkpoints = newest_run(folder.path() / "stopped") / "checkpoints";
  Checkpoint checkpoint = read_checkpoint(checkpoints / checkpoint_name(5));
  checkpoint.state.so_far.seconds = 86400;
  write_checkpoint(checkpoints, checkpoint);
  const Outcome resumed = succeeded(quickstart(folder / "stopped", set));
  const Lines epochs = of(metrics_in(folder / "stopped"), "epoch");
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_GT(epochs[1].at("seconds"), 86400);
  EXPECT_LT(epochs[1].at("images_per_second"), 1);
}

TEST(Observers, OneThatFailsIsNamedOnceAndTheRunGoesOn) {
  const Outcome outcome = succeeded(quickstart("", {"run.epochs=2", "observe.asker={ask=\"fail\", at=2}"}));
  EXPECT_EQ(
      count(outcome.err, "warning: observer 'asker' failed, and receives no further events: the asker has lost its tongue\n"), 1U)
      << outcome.err;
}

TEST(Observers, AreLeftOutWhereTheFileSaysSo) {
  const TemporaryFolder folder;
  const Outcome outcome =
      succeeded(quickstart(folder / "runs", {"run.epochs=1", "observe={console=false, metrics=false, results=true}"}));
  const fs::path run = run_in(folder / "runs");
  EXPECT_FALSE(fs::exists(run / "metrics.jsonl"));
  std::ifstream results(run / "results.csv");
  Lines rows;
  std::string header, epoch, pass;
  std::getline(results, header);
  std::getline(results, epoch);
  std::getline(results, pass);
  EXPECT_TRUE(header.starts_with("graph,epoch,step,images_per_second,seconds,loss,accuracy,top5,mean_accuracy,")) << header;
  EXPECT_EQ(epoch.substr(0, 10), "train,1,4,");
  EXPECT_EQ(pass.substr(0, 13), "validate,1,4,");
  EXPECT_EQ(outcome.err, "weights: " + (run / "weights.safetensors").string() + "\n");
}

TEST(RunControl, AStopEndsTheRunInGoodOrder) {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(quickstart(folder / "runs", {"run.epochs=1000", "observe.asker={ask=\"stop\", at=3}"}));
  const Lines lines = metrics_in(folder / "runs");
  EXPECT_EQ(lines.back().at("event"), "end");
  EXPECT_FALSE(lines.back().contains("signal"));
  EXPECT_LT(lines.back().at("step"), 100);
  EXPECT_TRUE(fs::exists(run_in(folder / "runs") / "weights.safetensors"));
  EXPECT_NE(outcome.err.find("stopping after the current step, requested by observer asker\n"), std::string::npos) << outcome.err;
}

// An observer requests it at the fifth of 400 images, which is broken.
TEST(RunControl, AnEvaluationThatAStopMeetsIsFinishedAndCountsNothingTwice) {
  const TemporaryFolder folder;
  fs::copy(shapes() + "/train", folder / "test", fs::copy_options::recursive);
  const auto first = [](const fs::path& in, std::size_t number) {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(in)) all.push_back(entry);
    std::ranges::sort(all);
    return all.at(number);
  };
  std::ofstream(first(first(folder / "test", 0), 4)) << "no image";
  std::vector<std::string> set = {"run.epochs=1", "validate.every=end", "validate.batch.size=1",
                                  "validate.batch.bad_samples=skip", "validate.read.path=" + (folder / "test")};
  const Outcome whole = succeeded(quickstart(folder / "whole", set));
  set.emplace_back("observe.asker={ask=\"stop\", at_bad_sample=true}");
  const Outcome stopped = succeeded(quickstart(folder / "stopped", set));
  const Lines lines = metrics_in(folder / "stopped"), passes = of(lines, "validate");
  const Lines expected = of(metrics_in(folder / "whole"), "validate");
  ASSERT_EQ(passes.size(), 1U);
  for (const char* key : {"samples", "loss", "stream_hash"}) EXPECT_EQ(passes[0].at(key), expected.at(0).at(key)) << key;
  EXPECT_EQ(lines.back().at("bad_samples"), 1);
}

// [stop] and an observer both request the end after the second epoch.
TEST(RunControl, TwoWhoAskForTheEndHaveItEvaluated) {
  const TemporaryFolder folder;
  std::ofstream(folder / "plain.toml") << R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "global_average_pool" }, { op = "linear", out = "${classes}" } ]
)";
  const Outcome outcome =
      quickstart(folder / "runs", {"run.epochs=50", "network.use=" + (folder / "plain.toml"), "train.optimizer.learning_rate=0",
                                   "train.optimizer.weight_decay=0", "stop.figure=train.loss", "stop.patience=1",
                                   "stop.threshold=0.5", "validate.every=end", "observe.asker={ask=\"stop\", at=8}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Lines lines = metrics_in(folder / "runs"), asked = of(lines, "request");
  EXPECT_EQ(lines.back().at("step"), 8);
  EXPECT_EQ(asked.size(), 1U) << "the observer gives no reason";
  EXPECT_EQ(of(lines, "validate").size(), 1U) << outcome.err;
}

// It has 400 images, in batches of one.
TEST(RunControl, TheSecondsOfAnEpochThatIsStoppedAreWithoutTheEvaluationAfterIt) {
  const TemporaryFolder folder;
  const Outcome outcome =
      quickstart(folder / "runs", {"run.epochs=2", "train.batch.size=1", "validate.every=end", "validate.batch.size=1",
                                   "validate.read.path=" + shapes() + "/train", "observe.asker={ask=\"stop\", at=2}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Lines lines = metrics_in(folder / "runs"), passes = of(lines, "validate");
  ASSERT_EQ(passes.size(), 1U);
  const std::uint64_t step = lines.back().at("step");
  ASSERT_LT(step, 400U);
  const SavedState state = read_checkpoint(run_in(folder / "runs") / "checkpoints" / checkpoint_name(step)).state;
  const double before = passes[0].at("elapsed_seconds"), seconds = passes[0].at("seconds");
  EXPECT_LT(state.so_far.seconds, before - seconds);
}

TEST(RunControl, SaveWritesTheWeightsOfItsStep) {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(quickstart(folder / "runs", {"run.epochs=2", "observe.asker={ask=\"save\", at=4}"}));
  const Lines asked = of(metrics_in(folder / "runs"), "request");
  ASSERT_EQ(asked.size(), 1U) << outcome.err;
  const std::uint64_t step = asked[0].at("step");
  const fs::path file = run_in(folder / "runs") / ("weights-step-" + std::to_string(step) + ".safetensors");
  EXPECT_EQ(asked[0].at("text"), file.string());
  EXPECT_GE(step, 4U);
  EXPECT_EQ(read_safetensors(file.string()).tensors.size(),
            read_safetensors((run_in(folder / "runs") / "weights.safetensors").string()).tensors.size());
  const Outcome nowhere = quickstart("", {"run.epochs=2", "observe.asker={ask=\"save\", at=4}"});
  EXPECT_NE(nowhere.err.find("observer asker requested save, which was refused: the run has no folder\n"), std::string::npos)
      << nowhere.err;
}

TEST(RunControl, ValidateRunsTheOtherGraphsAtTheNextStep) {
  const TemporaryFolder folder;
  const Outcome outcome =
      quickstart(folder / "runs", {"run.epochs=3", "validate.every=end", "observe.asker={ask=\"validate\", at=2}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Lines lines = metrics_in(folder / "runs"), asked = of(lines, "request"), passes = of(lines, "validate");
  ASSERT_EQ(asked.size(), 1U) << outcome.err;
  ASSERT_EQ(passes.size(), 2U);
  EXPECT_EQ(passes[0].at("step"), asked[0].at("step"));
  EXPECT_EQ(passes[1].at("step"), 12);
  expect_every_step(lines);
}

TEST(RunControl, ARateFactorHoldsFromTheStepThatTheEventNames) {
  const auto rates = [](const std::vector<std::string>& set, std::uint64_t& completed) {
    const TemporaryFolder folder;
    std::vector<std::string> all = {"run.epochs=3"};
    all.insert(all.end(), set.begin(), set.end());
    const Outcome outcome = succeeded(quickstart(folder / "runs", all));
    const Lines lines = metrics_in(folder / "runs");
    for (const auto& asked : of(lines, "request")) completed = asked.at("step");
    std::vector<double> found;
    for (const auto& step : of(lines, "step")) found.push_back(step.at("learning_rate"));
    return found;
  };
  std::uint64_t none = 99, first = 99, later = 99;
  const auto whole = rates({}, none);
  const auto from_the_first = rates({"observe.asker={ask=\"rate_factor\", at=0, factor=0.25}"}, first);
  const auto from_later = rates({"observe.asker={ask=\"rate_factor\", at=2, factor=0.25}"}, later);
  ASSERT_EQ(whole.size(), 12U);
  ASSERT_EQ(from_later.size(), 12U);
  ASSERT_EQ(from_the_first.size(), 12U);
  EXPECT_EQ(none, 99U);
  EXPECT_EQ(first, 0U);
  EXPECT_GE(later, 2U);
  EXPECT_LT(later, 12U);
  for (std::size_t s = 0; s < whole.size(); ++s) {
    EXPECT_DOUBLE_EQ(from_the_first[s], 0.25 * whole[s]) << s;
    EXPECT_DOUBLE_EQ(from_later[s], (s < later ? 1 : 0.25) * whole[s]) << s;
  }
}

// Each line of standard output is an event, so the report of --check goes to standard error.
TEST(WarningsInJson, AreEventsOfARunAndOfACheck) {
  const TemporaryFolder folder;
  std::ofstream(folder / "w.toml") << "often = 3\nextends = \"" << pipeline("quickstart.toml") << "\"\n";
  for (const bool check : {false, true}) {
    std::vector<std::string> words = {tool("pipeline-run"), folder / "w.toml", "--json"};
    for (const std::string& set : {"data.path=" + shapes(), std::string("run.folder="), std::string("run.epochs=1")})
      words.insert(words.end(), {"--set", set});
    if (check) words.emplace_back("--check");
    const Outcome outcome = succeeded(run_command(words));
    const std::string text = folder / "w.toml" + ":1:1: 'often' is in no table and nothing refers to it: it has no effect";
    const Lines warnings = events(outcome, "warning");
    EXPECT_EQ(std::ranges::count(warnings, text, [](const auto& line) { return line.at("text").template get<std::string>(); }), 1)
        << outcome.out;
    EXPECT_NE(outcome.err.find("warning: " + text + "\n"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find(": no mistakes found, ") != std::string::npos, check) << outcome.err;
  }
}

}  // namespace
}  // namespace millrace::test::observers_test
