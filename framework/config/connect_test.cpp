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
      "p.toml:2:24: 'batch' takes ImageChunk, which no stage before it in the flow of [train] outputs ('read_folder' gives "
      "SampleChunk); 'decode_image' outputs it");
}

TEST_F(ConnectRefuses, FromLeadsBackwards) {
  EXPECT_EQ(mistakes(train("from = \"metrics\"\n")),
            "p.toml:8:8: 'from' of 'batch' points backwards: 'metrics' comes after it in the flow. That is a cycle without "
            "credits: only batches and step tokens flow back, on edges that the framework adds");
  EXPECT_EQ(mistakes(train("from = \"batch\"\n")),
            "p.toml:8:8: 'from' of 'batch' points backwards: 'batch' is the stage itself. That is a cycle without credits: only "
            "batches and step tokens flow back, on edges that the framework adds");
}

TEST_F(ConnectRefuses, FromNamesNoStage) {
  EXPECT_EQ(mistakes(train("from = \"decode\"\n")),
            "p.toml:8:8: 'from' of 'batch': no stage 'decode' is in the flow of [train]; nearest is 'decode_image'");
  EXPECT_EQ(mistakes(train("from = [\"augment\", \"read\"]\n")),
            "p.toml:8:8: 'from' of 'batch' names 2 stages, but the stage has 1 input");
}

TEST_F(ConnectRefuses, SamplesThatNothingTakes) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\", \"augment\", \"forward_backward\"]\n"
                     "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
            "p.toml:2:49: no stage takes the output of 'augment'; put it before 'batch' in the flow");
  EXPECT_EQ(mistakes(train("from = \"decode_image\"\n")),
            "p.toml:2:33: no stage takes the output of 'augment'; name it in 'from' of the stage that should take it");
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
  EXPECT_EQ(mistakes(train("[check]\nevery = \"epoch\"\nflow = [\"read_folder\", \"decode_image\", \"batch\", "
                           "\"forward_backward\", \"metrics\"]\n[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
            "p.toml:10:49: 'forward_backward' computes gradients, but no stage of [check] uses them; a graph that does not train "
            "takes 'forward' instead");
}

TEST_F(ConnectRefuses, SamplesThatTwoStagesTake) {
  registry_.add_stage<Look>();
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"augment\", \"look\", \"batch\"]\n"
                     "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n[train.look]\nfrom = \"decode_image\"\n"),
            "p.toml:2:24: 'augment' and 'look' take the output of 'decode_image'; samples have one path, since stages change "
            "them in place: let one take the other's output, or remove it from the flow");
}

}  // namespace
}  // namespace millrace::plan_test
