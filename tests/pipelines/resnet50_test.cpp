// pipelines/resnet50.toml unchanged, with a small data set and small images.
#include <gtest/gtest.h>

#include "command.h"

namespace millrace::test {
namespace {

Outcome resnet50(const std::string& root, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {tool("pipeline-run"), pipeline("resnet50.toml"), "--devices", "cpu"};
  const std::vector<std::string> settings = {
      "data.path=" + root,   "network.classes=10", "image.side=32",          "image.short=40",
      "train.read.limit=24", "train.batch.size=8", "validate.read.limit=20", "validate.batch.size=8",
      "run.epochs=1",        "run.folder=",        "run.log_every=1"};
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_command(arguments);
}

TEST(ResNet50, TrainsAndSeesEveryTestImageAndWarmsUpToTheRateOfALargeBatch) {
  // Twice the batch that the rate is intended for: from 0.1 to 0.2 within five epochs of three steps.
  const Outcome outcome = succeeded(resnet50(shapes(), {"--json", "--set", "recipe.batch=4"}));
  const auto steps = events(outcome, "step");
  ASSERT_EQ(steps.size(), 3U);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    EXPECT_NEAR(steps[s].at("learning_rate").get<double>(), 0.1 + 0.1 * static_cast<double>(s) / 15, 1e-9) << s;
  }
  ASSERT_EQ(events(outcome, "validate").size(), 1U);
  EXPECT_EQ(events(outcome, "validate")[0].at("samples"), 20.0);
  EXPECT_EQ(events(outcome, "end").back().at("bad_samples"), 0);
}

TEST(ResNet50, LearnsAtTheRecipesRateWithTheRecipesBatch) {
  const Outcome outcome = succeeded(resnet50(shapes(), {"--json", "--graph", "train", "--set", "recipe.batch=8"}));
  for (const auto& step : events(outcome, "step")) EXPECT_DOUBLE_EQ(step.at("learning_rate").get<double>(), 0.1);
}

TEST(ResNet50, ReadsShardsAsWell) {
  const TemporaryFolder folder;
  const std::string file = pipeline("resnet50.toml");
  for (const std::string part : {"train", "test"}) {
    const Outcome packed =
        succeeded(run_command({tool("pipeline-data"), "pack", file, "--graph", part == "train" ? "train" : "validate", "--set",
                               "data.path=" + shapes(), "--out", folder / part}));
  }
  const Outcome outcome = succeeded(resnet50(folder.path().string(), {"--check"}));
  EXPECT_NE(outcome.out.find("read (read_tar)"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("24 samples of 32 x 32 x 3, batches of 8, 3 steps per epoch"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace millrace::test
