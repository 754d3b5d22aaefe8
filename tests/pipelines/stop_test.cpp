// How runs end by themselves, what they keep, and what is tried before they begin.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "command.h"
#include "weights/safetensors.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// quickstart.toml, made small: 4 steps per epoch.
Outcome run(const std::string& folder, const std::vector<std::string>& set, const std::vector<std::string>& options = {}) {
  return run_command(with({tool("pipeline-run"), pipeline("quickstart.toml"), "--json", "--set", "data.path=" + shapes(), "--set",
                           "run.folder=" + folder},
                          set, options));
}

std::vector<NamedTensor> tensors(const std::string& folder, const std::string& name) {
  return read_safetensors(find_file(folder, name)).tensors;
}

bool equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const NamedTensor& x, const NamedTensor& y) { return x.name == y.name && x.values == y.values; });
}

// With a rate of 0 no pass improves on the first one.
const std::vector<std::string> kStandsStill = {"run.epochs=50", "train.optimizer.learning_rate=0",
                                               "train.optimizer.weight_decay=0", "stop.figure=validate.loss", "stop.patience=2"};

TEST(Stop, PatienceEndsARunThatNoLongerImproves) {
  const TemporaryFolder folder;
  // Without batch normalisation, whose statistics would keep changing.
  std::ofstream(folder / "plain.toml") << R"(
input  = { channels = 3, height = 32, width = 32, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
layers = [ { op = "global_average_pool" }, { name = "fc", op = "linear", out = "${classes}" } ]
)";
  for (const std::string processes : {"1", "2"}) {
    std::vector<std::string> set = kStandsStill;
    set.push_back("network.use=" + (folder / "plain.toml"));
    const std::string runs = folder / ("runs" + processes);
    const Outcome outcome = succeeded(run(runs, set, {"--devices", "cpu*2", "--processes", processes}));
    const std::string why = "validate.loss has not improved for 2 passes; best ";
    EXPECT_NE(outcome.err.find(" steps (" + why), std::string::npos) << outcome.err;
    const auto asked = events(outcome, "request");
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_EQ(asked[0].at("by"), "[stop]");
    EXPECT_EQ(std::string(asked[0].at("text")).substr(0, why.size()), why);
    const std::uint64_t last = events(outcome, "end").at(0).at("step");
    EXPECT_EQ(events(outcome, "step").size(), last);
    if (processes == "1") {
      EXPECT_EQ(last, 12U) << "three passes";
    } else {
      EXPECT_GE(last, 12U);
      EXPECT_LT(last, 24U);
    }
    EXPECT_FALSE(find_file(runs, "weights.safetensors").empty());
  }
}

TEST(Stop, MaxStepsEndsARunWithItsValidationAndWithTheScheduleOfTheWholeRun) {
  const Outcome whole = run("", {"run.epochs=3"});
  const Outcome short_run = succeeded(run("", {"run.epochs=3", "stop.max_steps=6"}));
  EXPECT_NE(short_run.err.find("stopped after 6 steps (stop.max_steps)\n"), std::string::npos) << short_run.err;
  const auto steps = events(short_run, "step"), all = events(whole, "step");
  ASSERT_EQ(steps.size(), 6U);
  ASSERT_EQ(all.size(), 12U);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    EXPECT_EQ(steps[s].at("learning_rate"), all[s].at("learning_rate")) << s;
    EXPECT_EQ(steps[s].at("loss"), all[s].at("loss")) << s;
  }
  EXPECT_EQ(events(short_run, "validate").back().at("step"), 6);
}

TEST(Stop, MaxTimeEndsARun) {
  const Outcome outcome = succeeded(run("", {"run.epochs=100000", "validate.every=end", "stop.max_time=2 seconds"}));
  EXPECT_NE(outcome.err.find(" steps (max_time is reached, "), std::string::npos) << outcome.err;
  EXPECT_LT(events(outcome, "end").at(0).at("step"), 400000);
}

// Half a pass once remained in the metrics and files of the run's closing pass. Time runs out in the pass over 80 times the test
// images, or earlier on a busy machine.
TEST(Stop, APassThatTheClockMeetsCountsEachImageOnce) {
  const TemporaryFolder folder;
  std::string sources;
  for (int i = 0; i < 80; ++i) sources += R"({ stage = "read_folder", path = "${data.path}/test" }, )";
  const std::string last = R"(final={ every = "end", read = { stage = "mix", sources = [)" + sources +
                           R"(] }, flow = ["read", "decode_image", "batch", "forward", "metrics", "write_evaluation"], )"
                           R"(decode_image = { size = [32, 32] }, batch = { size = 50, last = "keep" }, )"
                           R"(write_evaluation = { mistakes = 0, predictions = 0 } })";
  for (const std::string processes : {"1", "2"}) {
    const std::string runs = folder / ("runs" + processes);
    const Outcome outcome =
        run(runs, {"run.epochs=1", "stop.max_time=2 seconds", last}, {"--devices", "cpu*2", "--processes", processes});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto pass = events(outcome, "validate").back();
    EXPECT_EQ(pass.at("graph"), "final");
    EXPECT_EQ(pass.at("samples"), 80 * 130);
    const std::string figures = read_file(find_file(runs, "figures.csv"));
    EXPECT_NE(figures.find("images,10400\r\n"), std::string::npos) << figures;
  }
}

TEST(Stop, AFigureThatIsNotReportedIsAMistakeBeforeAnythingRuns) {
  const Outcome outcome = run("", {"run.best=validate.acuracy"}, {"--check"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("[validate] has no figure 'acuracy'; nearest is 'accuracy'"), std::string::npos) << outcome.err;
}

TEST(Best, HasTheWeightsThatWereValidated) {
  const TemporaryFolder folder;
  for (const std::string ema : {"0", "0.5"}) {
    const std::string runs = folder / ("runs" + ema);
    const Outcome outcome =
        succeeded(run(runs, {"run.epochs=3", "run.best=validate.loss", "train.optimizer.ema={decay=" + ema + "}"}));
    const auto passes = events(outcome, "validate"), kept = events(outcome, "request");
    ASSERT_EQ(passes.size(), 3U);
    double best = 1e9;
    std::vector<std::uint64_t> expected, found;
    for (const auto& pass : passes) {
      if (pass.at("loss") >= best) continue;
      best = pass.at("loss");
      expected.push_back(pass.at("step"));
    }
    for (const auto& each : kept) found.push_back(each.at("step"));
    EXPECT_EQ(found, expected);
    const std::string file = find_file(runs, "best.safetensors");
    ASSERT_FALSE(file.empty());
    EXPECT_EQ(kept.back().at("text"), file);
    const Outcome again = run("", {}, {"--graph", "validate", "--weights", file});
    EXPECT_NEAR(events(again, "validate").at(0).at("loss"), best, 1e-9) << "ema " << ema;
  }
}

TEST(Best, IsTheSameWithTwoProcesses) {
  const TemporaryFolder folder;
  const auto best = [&](const std::string& processes) {
    const Outcome outcome =
        run(folder / processes, {"run.epochs=3", "run.best=validate.loss"}, {"--devices", "cpu*2", "--processes", processes});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return tensors(folder / processes, "best.safetensors");
  };
  EXPECT_TRUE(equal(best("1"), best("2")));
}

// It was once in no file: only passes at boundaries decided the best. The run stops at an epoch's end, when a checkpoint is
// already written before the last pass turns out to be the best.
TEST(Best, IsWhatTheLastPassOfARunThatStopsFinds) {
  const TemporaryFolder folder;
  for (const std::string every : {"never", "epoch"}) {
    const std::string runs = folder / every;
    std::vector<std::string> set = kStandsStill;
    set.insert(set.end(), {"stop.figure=train.loss", "stop.patience=1", "validate.every=end", "run.best=validate.loss",
                           "checkpoint.every=" + every});
    const Outcome outcome = succeeded(run(runs, set));
    const auto pass = events(outcome, "validate");
    ASSERT_EQ(pass.size(), 1U);
    EXPECT_LT(pass[0].at("step"), 200) << "it stops";
    ASSERT_FALSE(find_file(runs, "best.safetensors").empty()) << every << outcome.err;
    EXPECT_TRUE(equal(tensors(runs, "best.safetensors"), tensors(runs, "weights.safetensors"))) << every;
    if (every == "never") continue;
    const std::string best = find_file(runs, "best"), latest = find_file(runs, "latest");
    ASSERT_FALSE(best.empty()) << outcome.err;
    EXPECT_EQ(read_file(best), read_file(latest));
  }
}

TEST(TriedBefore, ChangesNoBitAndTellsNothing) {
  const TemporaryFolder folder;
  const Outcome with = run(folder / "with", {"run.epochs=1"});
  const Outcome without = run(folder / "without", {"run.epochs=1", "validate.before=false"});
  ASSERT_EQ(with.code, 0) << with.err;
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_TRUE(equal(tensors(folder / "with", "weights.safetensors"), tensors(folder / "without", "weights.safetensors")));
  const auto pass = events(with, "validate"), other = events(without, "validate");
  ASSERT_EQ(pass.size(), 1U);
  EXPECT_EQ(pass[0].at("samples"), other.at(0).at("samples"));
  EXPECT_EQ(pass[0].at("loss"), other.at(0).at("loss"));
  EXPECT_EQ(pass[0].at("stream_hash"), other.at(0).at("stream_hash"));
}

TEST(TriedBefore, FindsAMistakeBeforeTheFirstStep) {
  const std::vector<std::string> set = {"run.epochs=1", "validate.batch.size=10", "validate.batch.bad_samples=fail",
                                        "validate.decode_image.max_bytes=10"};
  const Outcome outcome = run("", set);
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("before the first step, [validate] was tried: stage 'validate.batch'"), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(events(outcome, "step").empty());
  std::vector<std::string> late = set;
  late.emplace_back("validate.before=false");
  EXPECT_EQ(events(run("", late), "step").size(), 4U);
}

TEST(TriedBefore, NamesBadSamplesOnce) {
  const TemporaryFolder folder;
  fs::copy(shapes(), folder / "data", fs::copy_options::recursive);
  const fs::path first = *fs::directory_iterator(*fs::directory_iterator(folder / "data/test"));
  std::ofstream(first, std::ios::trunc) << "no image";
  const Outcome outcome = succeeded(run(folder / "runs", {"run.epochs=1", "data.path=" + (folder / "data")}));
  const std::string ledger = read_file(find_file(folder / "runs", "quarantine.jsonl"));
  EXPECT_EQ(std::count(ledger.begin(), ledger.end(), '\n'), 1) << ledger;
}

// The batches tried before the first epoch come again in the first pass.
TEST(Rehearsal, IsNotTheFirstPassOfACache) {
  const TemporaryFolder folder;
  const auto set = std::vector<std::string>{"run.epochs=1", "validate.batch.size=10", "validate.cache.file=" + (folder / "cache"),
                                            R"(validate.flow=["read", "decode_image", "cache", "batch", "forward", "metrics"])"};
  const Outcome first = succeeded(run(folder / "first", set));
  EXPECT_GT(fs::file_size(folder / "cache"), 130U * 32 * 32 * 3) << "not all images are in the cache";
  const Outcome second = run(folder / "second", set);
  EXPECT_EQ(events(first, "validate").at(0).at("loss"), events(second, "validate").at(0).at("loss"));
}

// The test images, with `count` broken ones.
void copy_broken(const fs::path& folder, int count) {
  fs::copy(fs::path(shapes()) / "test", folder, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(fs::directory_iterator(folder)->path())) {
    if (count-- > 0) std::ofstream(entry.path()) << "no image";
  }
}

TEST(Rehearsal, EndsARunWhoseValidationHasTooManyBadSamples) {
  const TemporaryFolder folder;
  copy_broken(folder / "test", 5);
  const Outcome outcome =
      run(folder / "runs", {"run.epochs=1", "validate.read.path=" + (folder / "test"), "validate.batch.size=65",
                            "validate.batch.bad_samples=skip", "validate.batch.bad_sample_budget=4"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("before the first step, [validate] was tried: "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("5 bad samples in epoch 1 are more than `bad_sample_budget` allows (4)"), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(events(outcome, "step").empty());
  const std::string ledger = read_file(find_file(folder / "runs", "quarantine.jsonl"));
  EXPECT_EQ(std::count(ledger.begin(), ledger.end(), '\n'), 5) << ledger;
}

TEST(Rehearsal, SpendsNothingOfTheBudgetOfBadSamples) {
  const TemporaryFolder folder;
  copy_broken(folder / "test", 5);
  const Outcome outcome =
      run(folder / "runs", {"run.epochs=1", "validate.read.path=" + (folder / "test"), "validate.batch.size=100",
                            "validate.batch.bad_samples=skip", "validate.batch.bad_sample_budget=7"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(events(outcome, "end").at(0).at("bad_samples"), 5);
}

// The test images are all broken, and so are left out.
TEST(Stop, AValidationOfNothingIsNeverTheBest) {
  const TemporaryFolder folder;
  fs::copy(shapes(), folder / "data", fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "data/test")) {
    if (entry.is_regular_file()) std::ofstream(entry.path()) << "x";
  }
  // More than two batches: the trial before the first step covers only a part.
  const std::vector<std::string> skips = {"validate.batch.bad_samples=skip", "validate.batch.bad_sample_budget=100000",
                                          "validate.batch.size=4"};
  std::vector<std::string> set = {"data.path=" + (folder / "data"), "run.epochs=2", "run.best=validate.loss",
                                  "stop.figure=validate.loss"};
  set.insert(set.end(), skips.begin(), skips.end());
  const Outcome outcome = succeeded(run(folder / "runs", set));
  EXPECT_TRUE(find_file(folder / "runs", "best.safetensors").empty());
  EXPECT_NE(outcome.err.find("warning: [validate]: nothing was measured after step"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("validate: no images  nothing was measured"), std::string::npos) << outcome.err;
  const auto passes = events(outcome, "validate");
  ASSERT_EQ(passes.size(), 2U);
  EXPECT_FALSE(passes[0].contains("loss")) << passes[0];

  const Outcome training = run("", {"train.read.path=" + (folder / "data/test"), "train.batch.bad_samples=skip",
                                    "train.batch.bad_sample_budget=100000", "run.epochs=2"});
  EXPECT_EQ(training.code, 3) << training.err;
  EXPECT_NE(training.err.find("[train]: no sample of epoch 1 could be used, so nothing was trained"), std::string::npos)
      << training.err;
}

}  // namespace
}  // namespace millrace::test
