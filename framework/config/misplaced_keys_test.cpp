#include "config/plan_fixture.h"

#include "testkit/messages.h"

namespace millrace::plan_test {
namespace {

struct Rate {
  double initial = 0.1;
  std::int64_t warmup_steps = 0, warmup_epochs = 0;
};

class Tune : public Stage {
 public:
  struct Params {
    Rate learning_rate;
    double weight_decay = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("tune").input(payload::kGradientBucket);
    d.params.add("weight_decay", &Params::weight_decay);
    const auto describe_rate = [](ParamSet<Rate>& r) {
      r.add("initial", &Rate::initial);
      r.add("warmup_steps", &Rate::warmup_steps);
      r.add("warmup_epochs", &Rate::warmup_epochs);
    };
    d.params.add_table("learning_rate", &Params::learning_rate, describe_rate).or_one();
  }
  Tune(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

class MisplacedKeys : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    registry_.add_stage<Tune>();
  }
  std::string said(const std::string& key, const std::string& value = "3") {
    return mistakes(
        "[run]\nname = \"x\"\n"
        "[train]\nflow = [\"read_folder\", \"decode_image\", \"augment\", \"batch\", \"forward_backward\", \"tune\", "
        "\"metrics\"]\n"
        "[train.read_folder]\npath = \"x\"\n"
        "[train.batch]\nsize = 4\n"
        "[validate]\nevery = \"epoch\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
        "[validate.read_folder]\npath = \"x\"\n"
        "[validate.batch]\nsize = 4\n",
        {key + "=" + value});
  }
};

TEST_F(MisplacedKeys, ATableThatHasTheKeyIsNamed) {
  EXPECT_MESSAGE(said("run.max_steps"));
  EXPECT_MESSAGE(said("stop.epochs"));
  EXPECT_MESSAGE(said("train.epochs"));
  EXPECT_MESSAGE(said("run.weights"));
  EXPECT_MESSAGE(said("run.patience"));
  EXPECT_MESSAGE(said("run.learning_rate"));
  EXPECT_MESSAGE(said("run.flip_x"));
  EXPECT_MESSAGE(said("run.size"));
  EXPECT_MESSAGE(said("validate.read_folder.size"));
  EXPECT_MESSAGE(said("train.tune.warmup_epochs"));
  EXPECT_MESSAGE(said("train.tune.learning_rate", "{ initial = 1, weight_decay = 2 }"));
}

TEST_F(MisplacedKeys, AKeyThatIsLikelyMeantIsNamed) {
  EXPECT_MESSAGE(said("run.steps"));
  EXPECT_MESSAGE(said("train.steps"));
  EXPECT_MESSAGE(said("run.total_steps"));
  EXPECT_MESSAGE(said("run.max_step"));
  EXPECT_MESSAGE(said("run.max_epochs"));
  EXPECT_MESSAGE(said("run.batch_size"));
  EXPECT_MESSAGE(said("train.batch_size"));
  EXPECT_MESSAGE(said("train.batch.batch_size"));
  EXPECT_MESSAGE(said("train.tune.lr"));
  EXPECT_MESSAGE(said("run.lr"));
}

TEST_F(MisplacedKeys, NoGuessIsMadeOfAKeyThatFitsLittle) {
  EXPECT_MESSAGE(said("stop.steps"));
  EXPECT_MESSAGE(said("checkpoint.steps"));
  EXPECT_MESSAGE(said("run.decay"));
  EXPECT_MESSAGE(said("run.pin_memory"));
}

TEST_F(MisplacedKeys, AValueThatStandsInNoTable) {
  const auto above = [&](const std::string& line, const std::string& more = "") { return mistakes(line + "\n" + train(more)); };
  const std::string nothing = " means nothing here and nothing refers to it; ";
  const std::string aside = "; put a variable for files that extend this one into a table of your own";
  EXPECT_MESSAGE(above("epochs = 3"));
  EXPECT_MESSAGE(above("max_epochs = 3"));
  EXPECT_MESSAGE(above("max_steps = 3"));
  EXPECT_MESSAGE(above("load = [1, 2]"));
  EXPECT_MESSAGE(above("batch_size = 8"));
  EXPECT_MESSAGE(above("batch = 8"));
  EXPECT_EQ(above("epochs = 3", "[run]\nepochs = \"${epochs}\"\n"), "");
  EXPECT_EQ(mistakes("epochs = 3\n" + train("[run]\nepochs = \"${epochs}\"\n"), {"run.epochs=1"}), "") << "used without --set";
  EXPECT_EQ(mistakes("epochs = 3\n" + train("[run]\nepochs = \"${epochs}\"\n"), {"epochs=1"}), "");
  write("base.toml", "epochs = 3\n" + train("[run]\nepochs = \"${epochs}\"\n"));
  EXPECT_EQ(mistakes("extends = \"base.toml\"\n[run]\nepochs = 1\n"), "") << "the base uses it";
  EXPECT_EQ(mistakes(to_toml(load("extends = \"base.toml\"\n").resolved)), "") << "what is recorded can be run again";
  write("base.toml", "[sizes]\nbatch_size = 8\n" + train());
  EXPECT_EQ(mistakes("extends = \"base.toml\"\n[train.batch]\nsize = \"${sizes.batch_size}\"\n"), "");
  EXPECT_EQ(load_pipeline("base.toml", {}, registry_).warnings.size(), 1U) << "by itself it changes nothing";
}

TEST_F(MisplacedKeys, AVariableIsAKeyOfTheNetwork) {
  EXPECT_MESSAGE(mistakes(train("[run]\nclasses = 3\n[network]\nuse = \"small\"\nclasses = 3\n")));
  EXPECT_MESSAGE(mistakes(train("[run]\nclasses = 3\nnum_classes = 3\n[network]\nuse = \"small\"\nclasses = 3\n")));
}

}  // namespace
}  // namespace millrace::plan_test
