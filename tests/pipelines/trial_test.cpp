// Short runs that answer a question: --overfit and --find-rate.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "command.h"
#include "running_program.h"
#include "testkit/messages.h"

namespace millrace::test {
namespace {

// quickstart.toml with these keys changed.
Words words_of(const Words& set, const Words& options) {
  return with({tool("pipeline-run"), pipeline("quickstart.toml"), "--json", "--set", "data.path=" + shapes()}, set, options);
}

Outcome trial(const Words& set, const Words& options) { return run_command(words_of(set, options)); }

TEST(Overfit, SaysWhetherTheNetworkLearnsABatchByHeart) {
  const Outcome learns = succeeded(trial({"train.batch.size=20"}, {"--overfit", "1"}));
  EXPECT_NE(learns.err.find("passed: the loss went from "), std::string::npos) << learns.err;
  EXPECT_NE(learns.err.find(": the network learns one batch by heart\n"), std::string::npos) << learns.err;
  EXPECT_LE(events(learns, "step").size(), 200U);
  const Outcome stands = trial({"train.batch.size=20", "train.optimizer.learning_rate=1e-9"}, {"--overfit", "2"});
  EXPECT_EQ(stands.code, 1) << stands.err;
  EXPECT_NE(stands.err.find("failed: the loss went from "), std::string::npos) << stands.err;
  EXPECT_EQ(stands.err.find("the loss has not fallen"), std::string::npos) << "the verdict says it: " << stands.err;
  EXPECT_NE(stands.err.find(" in 200 steps, and not to 0.2"), std::string::npos) << stands.err;
  EXPECT_NE(stands.err.find(": the network does not learn 2 batches by heart. The loss hardly moved: the learning rate (1e-09) "
                            "is too small, or important layers are frozen"),
            std::string::npos)
      << stands.err;
  EXPECT_EQ(events(stands, "epoch").size(), 100U) << "of two batches each";
}

TEST(Overfit, HeedsNothingThatIsMeantForAWholeRun) {
  const TemporaryFolder folder;
  const Outcome outcome =
      trial({"train.batch.size=20", "stop.max_steps=2", "observe.console=false", "train.cache.file=" + (folder / "cache"),
             R"(train.flow=["read", "decode_image", "cache", "augment", "batch", "forward_backward", "allreduce",
                                                "optimizer", "metrics"])",
             R"(train.optimizer.learning_rate={ initial = 0.1, schedule = "piecewise", drop_epochs = 1 })"},
            {"--overfit", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto steps = events(outcome, "step");
  ASSERT_GT(steps.size(), 2U);
  EXPECT_EQ(steps.front().at("learning_rate"), steps.back().at("learning_rate"));
  EXPECT_FALSE(std::filesystem::exists(folder / "cache")) << "a later run would take it for the cache of all samples";
}

// Both count epochs, and those of a trial have one step.
TEST(Overfit, LowersNoRateAndFreezesNothing) {
  const Outcome outcome = succeeded(trial({"train.batch.size=20", "plateau.figure=train.loss", "plateau.patience=1",
                                           "plateau.factor=0", R"(train.optimizer.groups=[{ match = "*", until_epoch = 1 }])"},
                                          {"--overfit", "1"}));
  for (const auto& step : events(outcome, "step")) EXPECT_GT(step.at("learning_rate"), 0);
}

// With either of them, the loss cannot fall to a tenth of the first one.
TEST(Overfit, LeavesOutSmoothingAndMixing) {
  const Outcome outcome = succeeded(trial(
      {"train.batch.size=20", R"(train.forward_backward.loss={ label_smoothing = 0.5 })", "train.mix_images.mixup={ chance = 1 }",
       R"(train.flow=["read", "decode_image", "augment", "batch", "mix_images", "forward_backward",
                                                "allreduce", "optimizer", "metrics"])"},
      {"--overfit", "1"}));
}

TEST(Overfit, RefusesWhatIsLearnedWithoutLooking) {
  const Outcome one_class =
      trial({"train.batch.size=20", "train.read.only=[\"star\"]", "validate.read.only=[\"star\"]"}, {"--overfit", "1"});
  EXPECT_EQ(one_class.code, 2) << one_class.err;
  EXPECT_MESSAGE(one_class.err);
  EXPECT_MESSAGE(refused(trial({"train.batch.size=1"}, {"--overfit", "1"})));
}

TEST(Overfit, NeedsAsManyBatchesAndStepsForThem) {
  EXPECT_MESSAGE(refused(trial({"train.batch.size=100"}, {"--overfit", "5"})));  // out of 400 images
  for (const char* count : {"0", "30", "a"}) {
    const Outcome outside = trial({"train.batch.size=4"}, {"--overfit", count});
    EXPECT_EQ(outside.code, 2) << outside.err;
    EXPECT_NE(outside.err.find(fmt::format("--overfit: expected a whole number from 1 to 20, found '{}'; in 200 steps no more "
                                           "batches are seen 10 times each",
                                           count)),
              std::string::npos)
        << outside.err;
  }
  EXPECT_MESSAGE(refused(trial({"train.batch.size=auto"}, {"--overfit", "1"})));
}

TEST(Overfit, NeedsAWholeRunOfOneProcess) { EXPECT_MESSAGE(refused(trial({}, {"--overfit", "1", "--graph", "validate"}))); }

TEST(FindRate, RaisesTheRateByOneFactorAndProposesOneThatLearns) {
  const Outcome outcome = succeeded(trial({"train.batch.size=20"}, {"--find-rate"}));
  const auto steps = events(outcome, "step");
  ASSERT_GT(steps.size(), 50U);
  ASSERT_LE(steps.size(), 100U);
  EXPECT_NEAR(steps.front().at("learning_rate"), 1e-7, 1e-12);
  const double factor = std::pow(1e8, 1.0 / 99);
  for (std::size_t s = 1; s < steps.size(); ++s) {
    const double before = steps[s - 1].at("learning_rate"), now = steps[s].at("learning_rate");
    EXPECT_NEAR(now / before, factor, 1e-6) << s;
  }
  const std::string proposal = "proposed: --lr ";
  const std::size_t at = outcome.err.find(proposal);
  ASSERT_NE(at, std::string::npos) << outcome.err;
  const double rate = std::stod(outcome.err.substr(at + proposal.size()));
  EXPECT_GT(rate, 1e-5) << outcome.err;
  EXPECT_LT(rate, 1) << outcome.err;
}

TEST(FindRate, RefusesImagesOfOneClass) {
  const Outcome outcome =
      trial({"train.batch.size=20", "train.read.only=[\"star\"]", "validate.read.only=[\"star\"]"}, {"--find-rate"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_MESSAGE(outcome.err);
}

TEST(FindRate, SaysThatItsRatesAreThoseOfTheKey) {
  const std::string said = "rates are values of the key learning_rate, before scale_with_batch multiplies them\n";
  const Outcome plain = trial({"train.batch.size=20"}, {"--find-rate"});
  EXPECT_EQ(plain.err.find(said), std::string::npos) << plain.err;
  const Outcome scaled = trial({"train.batch.size=20", "train.optimizer.scale_with_batch={reference=256}"}, {"--find-rate"});
  EXPECT_NE(scaled.err.find(said), std::string::npos) << scaled.err;
}

TEST(FindRate, DrawsAPictureWhereOneIsAskedFor) {
  const TemporaryFolder folder;
  const std::string file = folder / "rate.png";
  const Outcome outcome = succeeded(trial({"train.batch.size=20"}, {"--find-rate", "--picture", file}));
  EXPECT_NE(outcome.err.find("picture: " + file + "\n"), std::string::npos) << outcome.err;
  std::ifstream stream(file, std::ios::binary);
  std::string head(24, ' ');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  EXPECT_EQ(head.substr(0, 16), std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
  EXPECT_EQ(head.substr(16), std::string("\0\0\x06\x40\0\0\x03\xc0", 8)) << "1600 x 960";
  EXPECT_MESSAGE(refused(trial({}, {"--overfit", "1", "--picture", file})));
}

TEST(FindRate, SaysAtOnceThatItsPictureCannotBeWritten) {
  const Outcome outcome = trial({"train.batch.size=20"}, {"--find-rate", "--picture", "/proc/rate.png"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("--picture: "), std::string::npos) << outcome.err;
  EXPECT_TRUE(events(outcome, "step").empty());
}

TEST(Trials, HaveNoResultWhenInterrupted) {
  constexpr double kPatience = 60;
  for (const Words& options : {Words{"--overfit", "1"}, Words{"--find-rate"}}) {
    RunningProgram program(words_of({"train.batch.size=200", "train.optimizer.learning_rate=1e-9"}, options));
    ASSERT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
    program.send(SIGINT);
    ASSERT_TRUE(program.ends(kPatience));
    EXPECT_EQ(program.code(), 130) << program.err();
    EXPECT_NE(program.err().find("interrupted after step "), std::string::npos) << program.err();
    EXPECT_EQ(program.err().find("does not learn"), std::string::npos) << program.err();
    EXPECT_EQ(program.err().find("no learning rate"), std::string::npos) << program.err();
  }
}

TEST(FindRate, IsNotToBeHadWithOverfit) {
  const Outcome outcome = trial({}, {"--find-rate", "--overfit", "1"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("choose one"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace millrace::test
