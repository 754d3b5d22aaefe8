// Refused connections of stages.
#include "config/plan_fixture.h"

#include "testkit/messages.h"

namespace millrace::plan_test {
namespace {

class ConnectRefuses : public PlanFixture {};

TEST_F(ConnectRefuses, PortMismatch) {
  EXPECT_MESSAGE(mistakes(train("from = \"read\"\n")));
  EXPECT_MESSAGE(mistakes(train("[train.metrics]\nfrom = \"forward_backward.gradients\"\n")));
  EXPECT_MESSAGE(mistakes(train("[train.metrics]\nfrom = \"forward_backward.loss\"\n")));
}

TEST_F(ConnectRefuses, InputThatNobodyFeeds) {
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"read_folder\", \"batch\"]\n[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"));
}

TEST_F(ConnectRefuses, FromLeadsBackwards) {
  EXPECT_MESSAGE(mistakes(train("from = \"metrics\"\n")));
  EXPECT_MESSAGE(mistakes(train("from = \"batch\"\n")));
}

TEST_F(ConnectRefuses, FromNamesNoStage) {
  EXPECT_MESSAGE(mistakes(train("from = \"decode\"\n")));
  EXPECT_MESSAGE(mistakes(train("from = [\"augment\", \"read\"]\n")));
}

TEST_F(ConnectRefuses, SamplesThatNothingTakes) {
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\", \"augment\", \"forward_backward\"]\n"
               "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"));
  EXPECT_MESSAGE(mistakes(train("from = \"decode_image\"\n")));
}

class Evaluate : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) {
    d.name("forward").input(payload::kBatch).output(payload::kStepResult, "result").per_replica();
  }
};

class PassOn : public Plain {
 public:
  using Plain::Plain;
  static void describe(StageDescription<Params>& d) {
    d.name("allreduce").input(payload::kGradientBucket).output(payload::kGradientBucket);
  }
};

TEST_F(ConnectRefuses, GradientsThatNoStageUses) {
  registry_.add_stage<PassOn>();
  registry_.add_stage<Evaluate>();
  const std::string tables = "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n";
  const auto said = [&](const std::string& end) {
    return mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\", " + end + "]\n" + tables);
  };
  const std::string message =
      "p.toml:2:49: 'forward_backward' computes gradients, but no stage of [train] uses them, so nothing is trained; put "
      "'optimizer' after it in the flow";
  EXPECT_EQ(said("\"forward_backward\", \"metrics\""), message);
  EXPECT_EQ(said("\"forward_backward\", \"allreduce\", \"metrics\""), message);
  EXPECT_EQ(said("\"forward_backward\", \"allreduce\", \"optimizer\""), "");
  EXPECT_EQ(said("\"forward\", \"metrics\""), "");
  EXPECT_MESSAGE(
      mistakes(train("[check]\nevery = \"epoch\"\nflow = [\"read_folder\", \"decode_image\", \"batch\", "
                     "\"forward_backward\", \"metrics\"]\n[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")));
}

TEST_F(ConnectRefuses, SamplesThatTwoStagesTake) {
  registry_.add_stage<Look>();
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"augment\", \"look\", \"batch\"]\n"
               "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n[train.look]\nfrom = \"decode_image\"\n"));
}

}  // namespace
}  // namespace millrace::plan_test
