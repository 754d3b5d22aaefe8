// Refused pipeline files; see connect_test.cpp and network_plan_test.cpp for connections and networks.
#include "config/plan_fixture.h"

namespace millrace::plan_test {
namespace {

class PlanRefuses : public PlanFixture {};

class Write : public Stage {
 public:
  struct Params {
    std::string file = "results.csv";
  };
  static void describe(StageDescription<Params>& d) {
    d.name("write").input(payload::kStepResult);
    d.params.add("file", &Params::file);
  }
  Write(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

TEST_F(PlanRefuses, TwoStagesThatWriteOneFile) {
  registry_.add_stage<Write>();
  const auto two = [](const std::string& file) {
    return "[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\", \"forward_backward\", \"optimizer\", \"write\", "
           "\"again\"]\n"
           "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 4\n[train.again]\nstage = \"write\"\n" +
           file;
  };
  EXPECT_EQ(mistakes(two("")),
            "p.toml:7:1: [train.again] writes into 'results.csv', as [train.write] does: give one of them "
            "another 'file'");
  EXPECT_EQ(mistakes(two("file = \"more.csv\"\n")), "");
}

TEST_F(PlanRefuses, MisspeltKey) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflipx = 0.5\n")),
            "p.toml:9:1: [train.augment] has no key 'flipx'; nearest is 'flip_x'");
  EXPECT_EQ(mistakes(train("[run]\nepoch = 2\n")), "p.toml:9:1: [run] has no key 'epoch'; nearest is 'epochs'");
}

TEST_F(PlanRefuses, MemoryThatIsNoNumberOfBytes) {
  EXPECT_EQ(mistakes(train("[run]\nmemory = \"lots\"\n")),
            "p.toml:9:10: 'memory' must be a number of bytes such as \"512 MiB\" or \"8 GiB\", found \"lots\"");
  EXPECT_EQ(mistakes(train("[run]\nmemory = 8\n")), "p.toml:9:10: 'memory' must be text, found 8");
}

TEST_F(PlanRefuses, ANameOfNothing) {
  EXPECT_EQ(mistakes(train("[run]\nname = \"\"\n")),
            "p.toml:9:8: run.name = \"\" names no folder: leave it out for the name of the file");
}

TEST_F(PlanRefuses, KeysOfRunWithoutEffect) {
  const std::string rate = "'nan_rate_factor' has no effect without on_nan = \"rollback\"";
  const std::string limit = "'nan_limit' has no effect without on_nan = \"skip\" or \"rollback\"";
  EXPECT_EQ(mistakes(train("[run]\nnan_rate_factor = 0.1\n")), "p.toml:9:1: [run]: " + rate);
  EXPECT_EQ(mistakes(train("[run]\non_nan = \"skip\"\nnan_rate_factor = 0.1\nnan_limit = 1\n")), "p.toml:10:1: [run]: " + rate);
  EXPECT_EQ(mistakes(train("[run]\nnan_limit = 1\n")), "p.toml:9:1: [run]: " + limit);
  const std::string back = train("[run]\non_nan = \"rollback\"\nnan_rate_factor = 0.1\nnan_limit = 1\n");
  EXPECT_EQ(mistakes(back), "");
  EXPECT_EQ(mistakes(back, {"run.on_nan=stop"}), "") << "both keys are meant for what --set has replaced";
  write("base.toml", train("[run]\non_nan = \"rollback\"\nnan_rate_factor = 0.1\n"));
  EXPECT_EQ(mistakes("extends = \"base.toml\"\n[run]\non_nan = \"stop\"\n"), "");
  EXPECT_EQ(mistakes("extends = \"base.toml\"\n[run]\non_nan = \"stop\"\nnan_limit = 2\n"), "p.toml:4:1: [run]: " + limit);
}

TEST_F(PlanRefuses, MissingRequiredParameter) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\",\n \"decode_image\", \"batch\"]\n[train.batch]\nsize = 1\n"),
            "p.toml:2:9: [train.read_folder] needs 'path': folder of the images");
}

TEST_F(PlanRefuses, AMisspeltKeyThatNamesTheTypeOfAStage) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read\", \"decode_image\", \"batch\"]\n[train.read]\nstagr = \"read_folder\"\n"
                     "path = \"x\"\n[train.batch]\nsize = 1\n"),
            "p.toml:4:1: [train.read] has no key 'stagr'; nearest is 'stage'");
}

TEST_F(PlanRefuses, AMisspeltNameInTheFlowOfAStageThatHasATable) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"rea\", \"decode_image\", \"batch\"]\n[train.read]\nstage = \"read_folder\"\n"
                     "path = \"x\"\n[train.batch]\nsize = 1\n"),
            "p.toml:2:9: unknown stage 'rea'; nearest is 'read'\np.toml:3:8: [train.read] is not in the flow of [train]; nearest "
            "is 'rea'");
}

TEST_F(PlanRefuses, AMisspeltGraphInTheNameOfATable) {
  EXPECT_EQ(mistakes(train("[rain.augment]\nflip_x = 0.5\n")),
            "p.toml:8:2: [rain] has no 'flow', so it is not a graph, and nothing refers to it; nearest is 'train'");
}

TEST_F(PlanRefuses, AGraphWithoutAFlowAndNoTablesOfVariables) {
  EXPECT_EQ(mistakes(train("[held_out.batch]\nsize = 2\n")),
            "p.toml:8:2: [held_out] has no 'flow', so it is not a graph, and nothing refers to it");
  EXPECT_EQ(mistakes(train("[held_out.pick]\nstage = \"read_folder\"\n")),
            "p.toml:8:2: [held_out] has no 'flow', so it is not a graph, and nothing refers to it");
  EXPECT_EQ(mistakes(train("[recipe.small]\nrate = 0.1\n[recipe.large]\nrate = 1\n")), "") << "for files that extend this one";
}

TEST_F(PlanRefuses, AStagesTableOutsideItsGraph) {
  EXPECT_EQ(mistakes(train("[augment]\nflip_x = 0.5\n")),
            "p.toml:8:2: [augment] means nothing here; the table of stage 'augment' is [train.augment]");
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${augment.flip}\"\n[augment]\nflip = 0.5\n")), "") << "a variable";
}

TEST_F(PlanRefuses, AStagesKeyInItsGraph) {
  EXPECT_EQ(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\nzoom = 2\n[train.read_folder]\npath = \"x\"\n"
               "[train.batch]\nsize = 1\n"),
      "p.toml:3:1: [train] has no key 'zoom'; keys of stages belong in the stages' tables, such as [train.read_folder]");
}

TEST_F(PlanRefuses, AMisspeltTableInAReference) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${daga.flip}\"\n[data]\nflip = 0.5\n")),
            "p.toml:9:10: '${daga.flip}' refers to nothing; nearest is '${data.flip}'");
}

TEST_F(PlanRefuses, NumbersThatAreNotFinite) {
  EXPECT_EQ(mistakes(train("[run]\nepochs = inf\n")),
            "p.toml:9:10: 'epochs' must be a number between 0 and 1000000000, found inf, which is not finite");
  EXPECT_EQ(mistakes(train("[run]\nepochs = 1e30\n")),
            "p.toml:9:10: 'epochs' must be a number between 0 and 1000000000, found 1e+30");
}

TEST_F(PlanRefuses, AMisspeltKeyMeansOneThatTheTableHasNotGot) {
  EXPECT_EQ(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n[train.read_folder]\npath = \"x\"\npatr = 0.5\n"
               "[train.batch]\nsize = 1\n"),
      "p.toml:5:1: [train.read_folder] has no key 'patr'; nearest is 'part'");
}

TEST_F(PlanRefuses, WhatAnOptionMadeByTheNameOfTheOption) {
  const auto said = [&](const std::vector<std::string>& overrides) {
    try {
      load_pipeline("p.toml", overrides, registry_, {.other_weights = false, .made_by = "--predict"});
      return std::string();
    } catch (const Error& error) {
      return error.message();
    }
  };
  const auto network = [](const std::string& op) {
    return "input = { channels = 3, height = 8, width = 8 }\nlayers = [{ op = \"global_average_pool\" }, { op = \"" + op +
           "\", out = 3 }]\n";
  };
  write("p.toml", train("[train.augment]\nflipx = 0.5\n[network]\nuse = \"networks/made.toml\"\n"));
  write("networks/made.toml", network("linaer"));
  write("own.toml", network("lienar"));
  const std::string text = said({});
  EXPECT_NE(text.find("--predict: [train.augment] has no key 'flipx'; nearest is 'flip_x'"), std::string::npos) << text;
  EXPECT_NE(text.find("--predict: unknown op 'linaer'"), std::string::npos) << text;
  EXPECT_EQ(text.find(".toml"), std::string::npos) << "no file of the user's: " << text;
  EXPECT_NE(said({"network.use=own.toml"}).find("own.toml:2:"), std::string::npos) << said({"network.use=own.toml"});
  write("networks/made.toml", network("linear"));
  write("p.toml", train("[network]\nuse = \"networks/made.toml\"\n"));
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({"trian.batch.size=2"}),
            "--set trian.batch.size: 'trian.batch.size' is set, but the file has no 'trian'; nearest is 'train'");
}

TEST_F(PlanRefuses, NameTwiceInTheFlow) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"decode_image\", \"batch\"]\n"
                     "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
            "p.toml:2:40: 'decode_image' is in the flow of [train] twice: give the second stage another name, and a table "
            "[train.NAME] with stage = \"decode_image\"");
}

TEST_F(PlanRefuses, TableThatIsNotInTheFlow) {
  EXPECT_EQ(mistakes(train("[train.augmnt]\nflip_x = 0.5\n")),
            "p.toml:8:8: [train.augmnt] is not in the flow of [train]; nearest is 'augment'");
}

TEST_F(PlanRefuses, BadSet) {
  EXPECT_EQ(mistakes(train(), {"run.epochs"}), "--set: expected key.path=value, found 'run.epochs'");
  EXPECT_EQ(mistakes(train(), {"run.epoch=2"}), "--set run.epoch: [run] has no key 'epoch'; nearest is 'epochs'");
  EXPECT_EQ(mistakes(train(), {"train.augmnt.flip_x=0.1"}),
            "--set train.augmnt.flip_x: [train.augmnt] is not in the flow of [train]; nearest is 'augment'");
  EXPECT_EQ(mistakes(train(), {"train.augment.flip_x=2"}),
            "--set train.augment.flip_x: 'flip_x' must be a number between 0 and 1, found 2");
  EXPECT_EQ(mistakes(train(), {"trian.batch.size=2"}),
            "--set trian.batch.size: 'trian.batch.size' is set, but the file has no 'trian'; nearest is 'train'");
  EXPECT_EQ(mistakes(train(), {"epochs=3"}), "--set epochs: 'epochs' is set, but the file has no 'epochs'; [run] has it");
  EXPECT_EQ(
      mistakes(train(), {"optimizer.x=3"}),
      "--set optimizer.x: 'optimizer.x' is set, but the file has no 'optimizer'; the table of that stage is [train.optimizer]");
  EXPECT_EQ(mistakes(train("[data]\nroot = \"x\"\n"), {"data.rot=2"}),
            "--set data.rot: 'data.rot' is set, but nothing refers to it; nearest is 'data.root'");
}

TEST_F(PlanRefuses, EachOfSeveralSetsByItsPath) {
  EXPECT_EQ(mistakes(train(), {"train.batch.size=0", "train.augment={ flip_x = 2 }", "train.augmnt.flip_x=0.1", "run.epochs"}),
            "--set: expected key.path=value, found 'run.epochs'\n"
            "--set train.augment: 'flip_x' must be a number between 0 and 1, found 2\n"
            "--set train.augmnt.flip_x: [train.augmnt] is not in the flow of [train]; nearest is 'augment'\n"
            "--set train.batch.size: 'size' must be an integer of at least 1, found 0");
}

TEST_F(PlanRefuses, SetMaySupplyWhatIsOnlyReferredTo) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${data.flip}\"\n"), {"data.flip=0.5"}), "");
}

TEST_F(PlanRefuses, WrongEvery) {
  EXPECT_EQ(mistakes(train("[check]\nevery = \"2 epocs\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                           "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
            "p.toml:9:9: 'every' must be \"epoch\", \"end\", \"never\" (only with --graph), or such as \"2 epochs\", \"0.5 "
            "epochs\" or \"100 steps\" (a fraction "
            "is for epochs only), found \"2 epocs\"; nearest is \"epochs\"");
  EXPECT_EQ(
      mistakes(train("[check]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                     "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
      "p.toml:8:1: [check] needs 'every', \"epoch\", \"end\", \"never\" (only with --graph), or such as \"2 epochs\", \"0.5 "
      "epochs\" or \"100 steps\" (a fraction is for epochs only): only one graph is the run itself, and that is [train]");
}

TEST_F(PlanRefuses, MisspeltTablesThatNobodyUses) {
  EXPECT_EQ(mistakes(train("[rnu]\nepochs = 2\n")),
            "p.toml:8:2: 'rnu' means nothing here and nothing refers to it; nearest is 'run'");
  EXPECT_EQ(mistakes(train("[probe]\nflwo = [\"read\"]\n")),
            "p.toml:9:1: [probe] has no key 'flwo'; nearest is 'flow', which would make it a graph");
  EXPECT_EQ(mistakes("[run]\nepochs = 1\n"), "p.toml:1:1: this file has no graph: a table with flow = [\"stage\", ...]");
}

TEST_F(PlanRefuses, SamplesNeedBatches) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\"]\n[train.read_folder]\npath = \"x\"\n"),
            "p.toml:2:9: [train] reads samples but makes no batches of them; put a stage such as 'batch' into its flow");
}

TEST_F(PlanRefuses, SeveralMistakesAreReportedTogetherInOrder) {
  EXPECT_EQ(mistakes("[run]\nepochs = -1\nprecision = \"fp61\"\n"
                     "[train]\nflow = [\"read\", \"decode_imge\", \"batch\"]\n"
                     "[train.read]\nstage = \"read_folder\"\nshuffle = \"always\"\n"
                     "[train.batch]\nsize = \"big\"\n"
                     "[network]\nuse = \"networks/large.toml\"\n"),
            "p.toml:2:10: 'epochs' must be a number between 0 and 1000000000, found -1\np.toml:3:13: 'precision' must be one of "
            "\"auto\", \"fp32\", \"tf32\", \"bf16\", found \"fp61\"\np.toml:5:17: unknown stage 'decode_imge'; nearest is "
            "'decode_image'\np.toml:6:1: [train.read] needs 'path': folder of the images\np.toml:8:11: 'shuffle' must be one of "
            "\"never\", \"once\", \"every-epoch\", found \"always\"\np.toml:10:8: 'size' must be an integer of at least 1, found "
            "\"big\"\np.toml:12:7: file 'networks/large.toml' does not exist; its folder has 'small.toml'");
}

}  // namespace
}  // namespace millrace::plan_test
