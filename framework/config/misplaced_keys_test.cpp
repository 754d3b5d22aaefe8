#include "config/plan_fixture.h"

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
  EXPECT_EQ(said("run.max_steps"), "--set run.max_steps: [run] has no key 'max_steps'; [stop] has it");
  EXPECT_EQ(said("stop.epochs"), "--set stop.epochs: [stop] has no key 'epochs'; [run] has it");
  EXPECT_EQ(said("train.epochs"), "--set train.epochs: [train] has no key 'epochs'; [run] has it");
  EXPECT_EQ(said("run.weights"), "--set run.weights: [run] has no key 'weights'; [network] has it");
  EXPECT_EQ(said("run.patience"), "--set run.patience: [run] has no key 'patience'; [stop] and [plateau] have it");
  EXPECT_EQ(said("run.learning_rate"), "--set run.learning_rate: [run] has no key 'learning_rate'; [train.tune] has it");
  EXPECT_EQ(said("run.flip_x"), "--set run.flip_x: [run] has no key 'flip_x'; [train.augment] has it");
  EXPECT_EQ(said("run.size"), "--set run.size: [run] has no key 'size'; [train.batch] has it") << "of the run itself";
  EXPECT_EQ(said("validate.read_folder.size"),
            "--set validate.read_folder.size: [validate.read_folder] has no key 'size'; [validate.batch] has it");
  EXPECT_EQ(said("train.tune.warmup_epochs"),
            "--set train.tune.warmup_epochs: [train.tune] has no key 'warmup_epochs'; [train.tune.learning_rate] has it");
  EXPECT_EQ(said("train.tune.learning_rate", "{ initial = 1, weight_decay = 2 }"),
            "--set train.tune.learning_rate: 'learning_rate' has no key 'weight_decay'; [train.tune] has it");
}

TEST_F(MisplacedKeys, AKeyThatIsLikelyMeantIsNamed) {
  EXPECT_EQ(said("run.steps"), "--set run.steps: [run] has no key 'steps'; nearest is 'stop.max_steps'");
  EXPECT_EQ(said("train.steps"), "--set train.steps: [train] has no key 'steps'; nearest is 'stop.max_steps'");
  EXPECT_EQ(said("run.total_steps"), "--set run.total_steps: [run] has no key 'total_steps'; nearest is 'stop.max_steps'");
  EXPECT_EQ(said("run.max_step"), "--set run.max_step: [run] has no key 'max_step'; nearest is 'stop.max_steps'");
  EXPECT_EQ(said("run.max_epochs"), "--set run.max_epochs: [run] has no key 'max_epochs'; nearest is 'epochs'");
  EXPECT_EQ(said("run.batch_size"), "--set run.batch_size: [run] has no key 'batch_size'; nearest is 'train.batch.size'");
  EXPECT_EQ(said("train.batch_size"), "--set train.batch_size: [train] has no key 'batch_size'; nearest is 'train.batch.size'");
  EXPECT_EQ(said("train.batch.batch_size"),
            "--set train.batch.batch_size: [train.batch] has no key 'batch_size'; nearest is 'size'");
  EXPECT_EQ(said("train.tune.lr"), "--set train.tune.lr: [train.tune] has no key 'lr'; nearest is 'learning_rate'");
  EXPECT_EQ(said("run.lr"), "--set run.lr: [run] has no key 'lr'; nearest is 'train.tune.learning_rate'");
}

TEST_F(MisplacedKeys, NoGuessIsMadeOfAKeyThatFitsLittle) {
  EXPECT_EQ(said("stop.steps"), "--set stop.steps: [stop] has no key 'steps'; nearest is 'max_steps'")
      << "its own table comes first";
  EXPECT_TRUE(
      said("checkpoint.steps").starts_with("--set checkpoint.steps: [checkpoint] has no key 'steps'; it takes 'every', "));
  EXPECT_TRUE(said("run.decay").starts_with("--set run.decay: [run] has no key 'decay'; it takes "));
  EXPECT_TRUE(said("run.pin_memory").starts_with("--set run.pin_memory: [run] has no key 'pin_memory'; it takes "));
}

TEST_F(MisplacedKeys, AValueThatStandsInNoTable) {
  const auto above = [&](const std::string& line, const std::string& more = "") { return mistakes(line + "\n" + train(more)); };
  const std::string nothing = " means nothing here and nothing refers to it; ";
  const std::string aside = "; put a variable for files that extend this one into a table of your own";
  EXPECT_EQ(above("epochs = 3"), "p.toml:1:1: 'epochs'" + nothing + "[run] has it" + aside);
  EXPECT_EQ(above("max_epochs = 3"), "p.toml:1:1: 'max_epochs'" + nothing + "nearest is 'run.epochs'" + aside);
  EXPECT_EQ(above("max_steps = 3"), "p.toml:1:1: 'max_steps'" + nothing + "[stop] has it" + aside);
  EXPECT_EQ(above("load = [1, 2]"), "p.toml:1:1: 'load'" + nothing + "[run] has it" + aside);
  EXPECT_EQ(above("batch_size = 8"), "p.toml:1:1: 'batch_size'" + nothing + "nearest is 'train.batch.size'" + aside);
  EXPECT_EQ(above("batch = 8"), "p.toml:1:1: 'batch'" + nothing + "the table of that stage is [train.batch]" + aside);
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
  EXPECT_EQ(mistakes(train("[run]\nclasses = 3\n[network]\nuse = \"small\"\nclasses = 3\n")),
            "p.toml:9:1: [run] has no key 'classes'; [network] has it");
  EXPECT_EQ(mistakes(train("[run]\nclasses = 3\nnum_classes = 3\n[network]\nuse = \"small\"\nclasses = 3\n")),
            "p.toml:9:1: [run] has no key 'classes'; [network] has it\n"
            "p.toml:10:1: [run] has no key 'num_classes'; nearest is 'network.classes'");
}

}  // namespace
}  // namespace millrace::plan_test
