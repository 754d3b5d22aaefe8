// Refused pipeline files; see connect_test.cpp and network_plan_test.cpp for connections and networks.
#include "config/plan_fixture.h"

#include "testkit/messages.h"

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
  EXPECT_MESSAGE(mistakes(two("")));
  EXPECT_EQ(mistakes(two("file = \"more.csv\"\n")), "");
}

TEST_F(PlanRefuses, MisspeltKey) {
  EXPECT_MESSAGE(mistakes(train("[train.augment]\nflipx = 0.5\n")));
  EXPECT_MESSAGE(mistakes(train("[run]\nepoch = 2\n")));
}

TEST_F(PlanRefuses, MemoryThatIsNoNumberOfBytes) {
  EXPECT_MESSAGE(mistakes(train("[run]\nmemory = \"lots\"\n")));
  EXPECT_MESSAGE(mistakes(train("[run]\nmemory = 8\n")));
}

TEST_F(PlanRefuses, ANameOfNothing) { EXPECT_MESSAGE(mistakes(train("[run]\nname = \"\"\n"))); }

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
  EXPECT_MESSAGE(mistakes("[train]\nflow = [\"read_folder\",\n \"decode_image\", \"batch\"]\n[train.batch]\nsize = 1\n"));
}

TEST_F(PlanRefuses, AMisspeltKeyThatNamesTheTypeOfAStage) {
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"read\", \"decode_image\", \"batch\"]\n[train.read]\nstagr = \"read_folder\"\n"
               "path = \"x\"\n[train.batch]\nsize = 1\n"));
}

TEST_F(PlanRefuses, AMisspeltNameInTheFlowOfAStageThatHasATable) {
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"rea\", \"decode_image\", \"batch\"]\n[train.read]\nstage = \"read_folder\"\n"
               "path = \"x\"\n[train.batch]\nsize = 1\n"));
}

TEST_F(PlanRefuses, AMisspeltGraphInTheNameOfATable) { EXPECT_MESSAGE(mistakes(train("[rain.augment]\nflip_x = 0.5\n"))); }

TEST_F(PlanRefuses, AGraphWithoutAFlowAndNoTablesOfVariables) {
  EXPECT_MESSAGE(mistakes(train("[held_out.batch]\nsize = 2\n")));
  EXPECT_MESSAGE(mistakes(train("[held_out.pick]\nstage = \"read_folder\"\n")));
  EXPECT_EQ(mistakes(train("[recipe.small]\nrate = 0.1\n[recipe.large]\nrate = 1\n")), "") << "for files that extend this one";
}

TEST_F(PlanRefuses, AStagesTableOutsideItsGraph) {
  EXPECT_MESSAGE(mistakes(train("[augment]\nflip_x = 0.5\n")));
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${augment.flip}\"\n[augment]\nflip = 0.5\n")), "") << "a variable";
}

TEST_F(PlanRefuses, AStagesKeyInItsGraph) {
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\nzoom = 2\n[train.read_folder]\npath = \"x\"\n"
               "[train.batch]\nsize = 1\n"));
}

TEST_F(PlanRefuses, AMisspeltTableInAReference) {
  EXPECT_MESSAGE(mistakes(train("[train.augment]\nflip_x = \"${daga.flip}\"\n[data]\nflip = 0.5\n")));
}

TEST_F(PlanRefuses, NumbersThatAreNotFinite) {
  EXPECT_MESSAGE(mistakes(train("[run]\nepochs = inf\n")));
  EXPECT_MESSAGE(mistakes(train("[run]\nepochs = 1e30\n")));
}

TEST_F(PlanRefuses, AMisspeltKeyMeansOneThatTheTableHasNotGot) {
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n[train.read_folder]\npath = \"x\"\npatr = 0.5\n"
               "[train.batch]\nsize = 1\n"));
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
  EXPECT_MESSAGE(said({"trian.batch.size=2"}));
}

TEST_F(PlanRefuses, NameTwiceInTheFlow) {
  EXPECT_MESSAGE(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"decode_image\", \"batch\"]\n"
               "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"));
}

TEST_F(PlanRefuses, TableThatIsNotInTheFlow) { EXPECT_MESSAGE(mistakes(train("[train.augmnt]\nflip_x = 0.5\n"))); }

TEST_F(PlanRefuses, BadSet) {
  EXPECT_MESSAGE(mistakes(train(), {"run.epochs"}));
  EXPECT_MESSAGE(mistakes(train(), {"run.epoch=2"}));
  EXPECT_MESSAGE(mistakes(train(), {"train.augmnt.flip_x=0.1"}));
  EXPECT_MESSAGE(mistakes(train(), {"train.augment.flip_x=2"}));
  EXPECT_MESSAGE(mistakes(train(), {"trian.batch.size=2"}));
  EXPECT_MESSAGE(mistakes(train(), {"epochs=3"}));
  EXPECT_MESSAGE(mistakes(train(), {"optimizer.x=3"}));
  EXPECT_MESSAGE(mistakes(train("[data]\nroot = \"x\"\n"), {"data.rot=2"}));
}

TEST_F(PlanRefuses, EachOfSeveralSetsByItsPath) {
  EXPECT_MESSAGE(
      mistakes(train(), {"train.batch.size=0", "train.augment={ flip_x = 2 }", "train.augmnt.flip_x=0.1", "run.epochs"}));
}

TEST_F(PlanRefuses, SetMaySupplyWhatIsOnlyReferredTo) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${data.flip}\"\n"), {"data.flip=0.5"}), "");
}

TEST_F(PlanRefuses, WrongEvery) {
  EXPECT_MESSAGE(
      mistakes(train("[check]\nevery = \"2 epocs\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                     "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")));
  EXPECT_MESSAGE(
      mistakes(train("[check]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                     "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")));
}

TEST_F(PlanRefuses, MisspeltTablesThatNobodyUses) {
  EXPECT_MESSAGE(mistakes(train("[rnu]\nepochs = 2\n")));
  EXPECT_MESSAGE(mistakes(train("[probe]\nflwo = [\"read\"]\n")));
  EXPECT_MESSAGE(mistakes("[run]\nepochs = 1\n"));
}

TEST_F(PlanRefuses, SamplesNeedBatches) {
  EXPECT_MESSAGE(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\"]\n[train.read_folder]\npath = \"x\"\n"));
}

TEST_F(PlanRefuses, SeveralMistakesAreReportedTogetherInOrder) {
  EXPECT_MESSAGE(
      mistakes("[run]\nepochs = -1\nprecision = \"fp61\"\n"
               "[train]\nflow = [\"read\", \"decode_imge\", \"batch\"]\n"
               "[train.read]\nstage = \"read_folder\"\nshuffle = \"always\"\n"
               "[train.batch]\nsize = \"big\"\n"
               "[network]\nuse = \"networks/large.toml\"\n"));
}

}  // namespace
}  // namespace millrace::plan_test
