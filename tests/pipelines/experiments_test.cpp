// What pipeline-profile predicts and tries: --what-if, --suggest, --forecast, --scaling, --autotune.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "command.h"

namespace millrace::test {
namespace {

// Variants of quickstart.toml, with runs that are as short as can be.
Outcome profile(std::vector<std::string> options) {
  std::vector<std::string> words = {tool("pipeline-profile"),
                                    pipeline("quickstart.toml"),
                                    "--set",
                                    "data.path=" + shapes(),
                                    "--set",
                                    "train.batch.size=16",
                                    "--steps",
                                    "3"};
  words.insert(words.end(), options.begin(), options.end());
  return run_command(words);
}

bool says(const Outcome& outcome, const std::string& text) { return outcome.out.find(text) != std::string::npos; }

std::ptrdiff_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(Experiments, AnswerQuestionsBesideTheMeasurement) {
  const Outcome outcome = profile({"--seconds", "0.3", "--what-if", "decode=2x,threads=1", "--what-if", "pack=16", "--suggest"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("measured: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "\nsimulated: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "\ndecode=2x,threads=1: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "\npack=16: ")) << outcome.out;
  EXPECT_TRUE(says(outcome, "device=2x")) << outcome.out;
}

TEST(Experiments, RefuseAQuestionBeforeTheyMeasure) {
  const Outcome outcome = profile({"--what-if", "decod_image=2x"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("did you mean 'decode_image'?"), std::string::npos) << outcome.err;
}

TEST(Experiments, ForecastManyMachinesAndMeasureSomeDevices) {
  const TemporaryFolder folder;
  const Outcome forecast =
      profile({"--seconds", "0.2", "--forecast", "devices=2,hosts=8,network=1Gb/s", "--csv", folder / "forecast.csv"});
  EXPECT_EQ(forecast.code, 0) << forecast.err;
  EXPECT_EQ(lines(read_file(folder / "forecast.csv")), 1 + 2 * 5) << "weak and strong, of 1, 2, 4, 8 and 16 devices";
  const Outcome scaling = profile({"--seconds", "0.2", "--scaling", "1,2", "--csv", folder / "scaling.csv"});
  EXPECT_EQ(scaling.code, 0) << scaling.err;
  const std::string table = read_file(folder / "scaling.csv");
  EXPECT_EQ(lines(table), 1 + 2 * 2) << table;
  EXPECT_NE(table.find("\nstrong,2,16,"), std::string::npos) << table;
  EXPECT_NE(table.find("\nweak,2,32,"), std::string::npos) << table;
}

TEST(Experiments, ChooseSettingsThatAFileCanBeExtendedBy) {
  const TemporaryFolder folder;
  Outcome outcome;
  for (const char* seconds : {"3", "15", "60"}) {  // on a machine that is busy, 3 do not suffice for two runs
    outcome = profile({"--seconds", seconds, "--autotune", "--out", folder / "tuned.toml"});
    if (outcome.err.find("is not written, since nothing was tried") == std::string::npos) break;
    EXPECT_FALSE(std::filesystem::exists(folder / "tuned.toml"));
  }
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Outcome check = run_command({tool("pipeline-run"), folder / "tuned.toml", "--check", "--set", "data.path=" + shapes()});
  EXPECT_EQ(check.code, 0) << check.err << read_file(folder / "tuned.toml");
  EXPECT_EQ(profile({"--autotune", "--out", folder / "tuned.toml"}).code, 2) << "it is there already";
}

}  // namespace
}  // namespace millrace::test
