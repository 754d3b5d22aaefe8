// Refused connections of stages.
#include "config/plan_fixture.h"

namespace millrace::plan_test {
namespace {

class ConnectRefuses : public PlanFixture {};

TEST_F(ConnectRefuses, PortMismatch) {
  EXPECT_EQ(
      mistakes(train("from = \"read\"\n")),
      "p.toml:8:8: port mismatch: 'batch' takes ImageChunk, 'read' gives SampleChunk; 'decode_image' or 'augment' gives it");
  EXPECT_EQ(mistakes(train("[train.metrics]\nfrom = \"forward_backward.gradients\"\n")),
            "p.toml:9:8: port mismatch: 'metrics' takes StepResult, 'forward_backward' gives GradientBucket and StepResult; "
            "'forward_backward.result' gives it");
  EXPECT_EQ(mistakes(train("[train.metrics]\nfrom = \"forward_backward.loss\"\n")),
            "p.toml:9:8: 'forward_backward' has no output 'loss'; it has 'gradients', 'result'");
}

TEST_F(ConnectRefuses, InputThatNobodyFeeds) {
  EXPECT_EQ(
      mistakes("[train]\nflow = [\"read_folder\", \"batch\"]\n[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
      "p.toml:2:24: 'batch' takes ImageChunk, which no stage before it in the flow of [train] gives ('read_folder' gives "
      "SampleChunk); 'decode_image' would give it");
}

TEST_F(ConnectRefuses, FromLeadsBackwards) {
  EXPECT_EQ(
      mistakes(train("from = \"metrics\"\n")),
      "p.toml:8:8: 'from' of 'batch' leads backwards: 'metrics' stands after it in the flow. That is a cycle without credit: "
      "only batches and step tokens flow back, on edges that the framework makes itself");
  EXPECT_EQ(mistakes(train("from = \"batch\"\n")),
            "p.toml:8:8: 'from' of 'batch' leads backwards: 'batch' is the stage itself. That is a cycle without credit: "
            "only batches and step tokens flow back, on edges that the framework makes itself");
}

TEST_F(ConnectRefuses, FromNamesNoStage) {
  EXPECT_EQ(mistakes(train("from = \"decode\"\n")),
            "p.toml:8:8: 'from' of 'batch': there is no stage 'decode' in the flow of [train]; nearest is 'decode_image'");
  EXPECT_EQ(mistakes(train("from = [\"augment\", \"read\"]\n")),
            "p.toml:8:8: 'from' of 'batch' names 2 stages, but the stage has 1 input");
}

TEST_F(ConnectRefuses, SamplesThatNothingTakes) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\", \"augment\", \"forward_backward\"]\n"
                     "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
            "p.toml:2:49: nothing takes what 'augment' gives; put it before 'batch' in the flow");
  EXPECT_EQ(mistakes(train("from = \"decode_image\"\n")),
            "p.toml:2:33: nothing takes what 'augment' gives; name it in 'from' of the stage that is to take it");
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
      "p.toml:2:49: 'forward_backward' computes gradients, and no stage of [train] uses them, so that nothing is trained; put "
      "'optimizer' after it in the flow";
  EXPECT_EQ(said("\"forward_backward\", \"metrics\""), message);
  EXPECT_EQ(said("\"forward_backward\", \"allreduce\", \"metrics\""), message);
  EXPECT_EQ(said("\"forward_backward\", \"allreduce\", \"optimizer\""), "");
  EXPECT_EQ(said("\"forward\", \"metrics\""), "");
  EXPECT_EQ(mistakes(train("[check]\nevery = \"epoch\"\nflow = [\"read_folder\", \"decode_image\", \"batch\", "
                           "\"forward_backward\", \"metrics\"]\n[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
            "p.toml:10:49: 'forward_backward' computes gradients, and no stage of [check] uses them; a graph beside the training "
            "takes 'forward' instead");
}

TEST_F(ConnectRefuses, SamplesThatTwoStagesTake) {
  registry_.add_stage<Look>();
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"augment\", \"look\", \"batch\"]\n"
                     "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n[train.look]\nfrom = \"decode_image\"\n"),
            "p.toml:2:24: 'augment' and 'look' take what 'decode_image' gives; samples take one way, as stages change them where "
            "they lie: let one take what the other gives, or take it out of the flow");
}

}  // namespace
}  // namespace millrace::plan_test
