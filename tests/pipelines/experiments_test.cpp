// Reports, predictions and trials of pipeline-profile: --data, --what-if, --suggest, --forecast, --scaling, --autotune.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "command.h"

namespace millrace::test {
namespace {

// Variants of quickstart.toml, with runs that are as short as possible.
Outcome profile(std::vector<std::string> options) {
  return run_command(with({tool("pipeline-profile"), pipeline("quickstart.toml"), "--steps", "3"},
                          {"data.path=" + shapes(), "train.batch.size=16"}, options));
}

bool says(const Outcome& outcome, const std::string& text) { return outcome.out.find(text) != std::string::npos; }

std::ptrdiff_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(Experiments, AnswerQuestionsBesideTheMeasurement) {
  const Outcome outcome =
      succeeded(profile({"--seconds", "0.3", "--what-if", "decode=2x,threads=1", "--what-if", "pack=16", "--suggest"}));
  EXPECT_TRUE(outcome.out.starts_with("measured: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "\nsimulated: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "\ndecode=2x,threads=1: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "\npack=16: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "device=2x")) << outcome.out;
}

TEST(Profile, OfTheDataAloneTellsNothingOfStepsAndWarnsOfNoSchedule) {
  const Outcome outcome =
      profile({"--data", "--set", "run.epochs=20", "--set",
               "train.optimizer.learning_rate={initial=0.1,schedule=\"piecewise\",drop_factor=0.1,drop_epochs=12}"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(says(outcome, "decode_image")) << outcome.out;
  EXPECT_FALSE(says(outcome, "device idle")) << outcome.out;
  EXPECT_FALSE(says(outcome, "forward_backward")) << outcome.out;
  EXPECT_EQ(outcome.err, "");
}

TEST(Experiments, RefuseAQuestionBeforeTheyMeasure) {
  const Outcome outcome = profile({"--what-if", "decod_image=2x"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("did you mean 'decode_image'?"), std::string::npos) << outcome.err;
}

TEST(Experiments, ForecastManyMachines) {
  const TemporaryFolder folder;
  const Outcome forecast =
      profile({"--seconds", "0.2", "--forecast", "devices=2,hosts=8,network=1Gb/s", "--csv", folder / "forecast.csv"});
  EXPECT_EQ(forecast.code, 0) << forecast.err;
  EXPECT_EQ(lines(read_file(folder / "forecast.csv")), 1 + 2 * 5) << "weak and strong, of 1, 2, 4, 8 and 16 devices";
}

TEST(Experiments, MeasureHowRanksScaleAndHowLongTheyLearn) {
  const TemporaryFolder folder;
  const Outcome scaling = succeeded(profile({"--seconds",     "0.2",
                                             "--scaling",     "1,2",
                                             "--over",        "ranks",
                                             "--network",     "1Gb/s",
                                             "--to-accuracy", "0.01",
                                             "--set",         "run.epochs=1",
                                             "--set",         "train.read.limit=32",
                                             "--set",         "validate.read.limit=20",
                                             "--csv",         folder / "scaling.csv",
                                             "--pictures",    folder / "scaling"}));
  const std::string table = read_file(folder / "scaling.csv");
  EXPECT_EQ(lines(table), 1 + 2 * 2) << table;
  EXPECT_NE(table.find("\nstrong,2,16,"), std::string::npos) << table;
  EXPECT_NE(table.find("\nweak,2,32,"), std::string::npos) << table;
  EXPECT_EQ(lines(read_file(folder / "scaling-accuracy.csv")), 1 + 3) << "one rank, and two with either batch";
  EXPECT_TRUE(says(scaling, "time to 1 % accuracy")) << scaling.out;
  for (const char* name : {"scaling-throughput", "scaling-step", "scaling-accuracy"}) {
    EXPECT_TRUE(read_file(folder / (name + std::string(".png"))).starts_with("\x89PNG")) << name;
    EXPECT_NE(read_file(folder / (name + std::string(".svg"))).find("<svg"), std::string::npos) << name;
  }
}

TEST(Experiments, HaveARowForEachRankAndARoofline) {
  const TemporaryFolder folder;
  const Outcome ranks =
      succeeded(profile({"--processes", "2", "--devices", "cpu*2", "--layers", "1", "--pictures", folder / "layers"}));
  EXPECT_TRUE(says(ranks, "\n2 ranks; ")) << ranks.out;
  EXPECT_TRUE(read_file(folder / "layers-roofline.png").starts_with("\x89PNG"));
  const Outcome refused = profile({"--processes", "2", "--suggest"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("are made by one process"), std::string::npos) << refused.err;
}

TEST(Experiments, ChooseSettingsThatAFileCanBeExtendedBy) {
  const TemporaryFolder folder;
  Outcome outcome;
  for (const char* seconds : {"3", "15", "60", "300"}) {  // on a busy machine, 3 may be too short for two runs, or for a step
    outcome = profile({"--seconds", seconds, "--autotune", "--out", folder / "tuned.toml"});
    if (outcome.err.find(": give more --seconds") == std::string::npos) break;
    EXPECT_FALSE(std::filesystem::exists(folder / "tuned.toml"));
  }
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Outcome check = run_command({tool("pipeline-run"), folder / "tuned.toml", "--check", "--set", "data.path=" + shapes()});
  EXPECT_EQ(check.code, 0) << check.err << read_file(folder / "tuned.toml");
  EXPECT_EQ(profile({"--autotune", "--out", folder / "tuned.toml"}).code, 2) << "it is there already";
}

}  // namespace
}  // namespace millrace::test
