// What a pipeline file is refused for.
#include "config/plan_fixture.h"

namespace millrace::plan_test {
namespace {

class PlanRefuses : public PlanFixture {};

TEST_F(PlanRefuses, MisspeltKey) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflipx = 0.5\n")),
            "p.toml:9:1: [train.augment] has no key 'flipx'; nearest is 'flip_x'");
  EXPECT_EQ(mistakes(train("[run]\nepoch = 2\n")), "p.toml:9:1: [run] has no key 'epoch'; nearest is 'epochs'");
}

TEST_F(PlanRefuses, WrongType) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"half\"\n")),
            "p.toml:9:10: 'flip_x' must be a number between 0 and 1, found \"half\"");
}

TEST_F(PlanRefuses, MemoryThatIsNoNumberOfBytes) {
  EXPECT_EQ(mistakes(train("[run]\nmemory = \"lots\"\n")),
            "p.toml:9:10: 'memory' must be a number of bytes such as \"512 MiB\" or \"8 GiB\", found \"lots\"");
  EXPECT_EQ(mistakes(train("[run]\nmemory = 8\n")), "p.toml:9:10: 'memory' must be text, found 8");
}

TEST_F(PlanRefuses, AVariableThatTheNetworkCannotUse) {
  const std::string text = mistakes(train("[network]\nuse = \"small\"\nclasses = \"ten\"\n"));
  EXPECT_TRUE(
      text.starts_with("p.toml:10:11: classes = \"ten\" of network 'small': networks/small.toml:2:80: 'out' must be an integer"))
      << text;
  EXPECT_TRUE(text.ends_with("found \"ten\"")) << text;
}

TEST_F(PlanRefuses, OutOfRange) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = 1.5\n")),
            "p.toml:9:10: 'flip_x' must be a number between 0 and 1, found 1.5");
}

TEST_F(PlanRefuses, ChoiceNotInTheList) {
  EXPECT_EQ(mistakes(train("[train.augment]\nborder = \"constent\"\n")),
            "p.toml:9:10: 'border' must be one of \"reflect\", \"constant\", found \"constent\"; nearest is \"constant\"");
}

TEST_F(PlanRefuses, MissingRequiredParameter) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\",\n \"decode_image\", \"batch\"]\n[train.batch]\nsize = 1\n"),
            "p.toml:2:9: [train.read_folder] needs 'path': folder of the images");
}

TEST_F(PlanRefuses, UnknownStage) {
  EXPECT_EQ(mistakes(train("[train.augment]\nstage = \"augmnt\"\n")),
            "p.toml:9:9: there is no stage 'augmnt'; nearest is 'augment'");
  EXPECT_EQ(mistakes(train("[train.augment]\nstage = \"convolve\"\n")),
            "p.toml:9:9: there is no stage 'convolve'; `pipeline-inspect` lists all there are");
}

TEST_F(PlanRefuses, AMisspeltKeyThatNamesTheTypeOfAStage) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"read\", \"decode_image\", \"batch\"]\n[train.read]\nstagr = \"read_folder\"\n"
                     "path = \"x\"\n[train.batch]\nsize = 1\n"),
            "p.toml:4:1: [train.read] has no key 'stagr'; nearest is 'stage'");
}

TEST_F(PlanRefuses, AMisspeltNameInTheFlowOfAStageThatHasATable) {
  EXPECT_EQ(mistakes("[train]\nflow = [\"rea\", \"decode_image\", \"batch\"]\n[train.read]\nstage = \"read_folder\"\n"
                     "path = \"x\"\n[train.batch]\nsize = 1\n"),
            "p.toml:2:9: there is no stage 'rea'; nearest is 'read'\n"
            "p.toml:3:8: [train.read] is not in the flow of [train]; nearest is 'rea'");
}

TEST_F(PlanRefuses, AMisspeltGraphInTheNameOfATable) {
  EXPECT_EQ(mistakes(train("[rain.augment]\nflip_x = 0.5\n")),
            "p.toml:8:2: [rain] has no 'flow', so it is no graph, and nothing refers to it; nearest is 'train'");
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
      "p.toml:3:1: [train] has no key 'zoom'; keys of stages stand in the stages' tables, such as [train.read_folder]");
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

TEST_F(PlanRefuses, AMisspeltKeyOfANetwork) {
  EXPECT_EQ(mistakes(train("[network]\nues = \"networks/small.toml\"\nclasses = 3\n")),
            "p.toml:8:1: [network] needs 'use': the name of a network, or the file that describes it\n"
            "p.toml:9:1: [network] has no key 'ues'; nearest is 'use'");
}

TEST_F(PlanRefuses, AFileWhoseEndingIsMisspelt) {
  EXPECT_EQ(mistakes(train("[network]\nuse = \"networks/small.tolm\"\nclasses = 3\n")),
            "p.toml:9:7: there is no file 'networks/small.tolm'; nearest is 'networks/small.toml'");
}

TEST_F(PlanRefuses, UnknownNetworkFile) {
  EXPECT_EQ(mistakes(train("[network]\nuse = \"networks/smal.toml\"\n")),
            "p.toml:9:7: there is no file 'networks/smal.toml'; nearest is 'networks/small.toml'");
  EXPECT_EQ(mistakes(train("[network]\nuse = \"elsewhere/small.toml\"\n")),
            "p.toml:9:7: there is no file 'elsewhere/small.toml'; the zoo has it: use = \"small\"");
  EXPECT_EQ(mistakes(train("[network]\nclasses = 3\n")),
            "p.toml:8:1: [network] needs 'use': the name of a network, or the file that describes it");
}

TEST_F(PlanRefuses, WhatNetworkSaysOfItsWeights) {
  const auto said = [&](const std::string& key) { return mistakes(train("[network]\nuse = \"small\"\nclasses = 7\n" + key)); };
  write("networks/old.pth", "");
  EXPECT_EQ(said("weights = \"networks/odl.pth\"\n"),
            "p.toml:11:11: there is no file 'networks/odl.pth'; nearest is 'networks/old.pth'");
  write("weights.pth", "");
  fs::create_directories("folder/networks");
  fs::copy_file("networks/small.toml", "folder/networks/small.toml");
  write("folder/p.toml", train("[network]\nuse = \"small\"\nclasses = 7\nweights = \"weigths.pth\"\n"));
  try {
    load_pipeline("folder/p.toml", {}, registry_);
    ADD_FAILURE() << "there are no such weights";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "folder/p.toml:11:11: there is no file 'folder/weigths.pth'; in the working folder there is no file 'weigths.pth'; "
              "nearest is 'weights.pth'");
  }
  write("p.toml", train("[network]\nuse = \"small\"\nclasses = 7\nweights = \"networks/odl.pth\"\n"));
  EXPECT_NO_THROW(load_pipeline("p.toml", {}, registry_, {.other_weights = true, .made_by = {}})) << "others are named";
  EXPECT_EQ(said("new = [\"fx\", \"fc\"]\nfreeze = [\"fc.wieght\"]\n"),
            "p.toml:11:8: new: 'fx' fits no layer that has parameters; nearest is 'fc'\n"
            "p.toml:12:11: freeze: 'fc.wieght' fits no layer that has parameters; nearest is 'fc.weight'");
  EXPECT_EQ(said("freeze = [\"*\"]\n"), "p.toml:11:10: freeze: nothing is left to train");
  EXPECT_EQ(said("new = [\"fc\"]\nfreeze = [\"fc.weight\"]\n"),
            "p.toml:12:11: freeze: 'fc.weight' begins with random values, as 'new' says, and would never be trained");
  EXPECT_EQ(said("new = [\"fc\"]\nfreeze = [\"fc.bias\"]\n"), "") << "the layer learns without its bias";
  EXPECT_EQ(said("freeze = \"fc\"\n").find("p.toml:11:10: "), 0U);
  EXPECT_EQ(said("rename = [{ from = \"a.*\", to = \"*.*\" }]\n"), "p.toml:11:11: rename: a rule has at most one * on each side");
  EXPECT_EQ(said("weights = \"networks/old.pth\"\nsha256 = \"12\"\n"),
            "p.toml:12:10: 'sha256' must be 64 hexadecimal digits, found \"12\"");
  EXPECT_EQ(said("sha256 = \"" + std::string(64, 'a') + "\"\n"),
            "p.toml:11:10: [network] has 'sha256', and no 'weights' that it is the sum of");
  EXPECT_NE(said("weights = \"htps://host/x.pth\"\n").find("p.toml:11:11: 'htps://host/x.pth': no plugin reads 'htps://'"),
            std::string::npos);
  EXPECT_EQ(said("freze = [\"fc\"]\n"),
            "p.toml:11:1: [network] has no key 'freze'; nearest is 'freeze'; network 'small' has the variables 'classes'");
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
  EXPECT_NE(text.find("--predict: there is no op 'linaer'"), std::string::npos) << text;
  EXPECT_EQ(text.find(".toml"), std::string::npos) << "no file of the user's: " << text;
  EXPECT_NE(said({"network.use=own.toml"}).find("own.toml:2:"), std::string::npos) << said({"network.use=own.toml"});
  write("networks/made.toml", network("linear"));
  write("p.toml", train("[network]\nuse = \"networks/made.toml\"\n"));
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({"trian.batch.size=2"}), "--set: 'trian.batch.size' is set, but the file has no 'trian'; nearest is 'train'");
}

TEST_F(PlanRefuses, ANetworkThatTheZooLacks) {
  const std::string text = mistakes(train("[network]\nuse = \"resnet81\"\n"));
  EXPECT_TRUE(
      text.starts_with("p.toml:9:7: there is no network 'resnet81'; nearest is 'resnet18'; there are airbench94, alexnet, "))
      << text;
  EXPECT_NE(text.find("small, squeezenet1_1, "), std::string::npos) << text;  // the one beside the file is among those of the zoo
  EXPECT_TRUE(text.ends_with("; a file of your own is named with its ending: \"resnet81.toml\"")) << text;
}

TEST_F(PlanRefuses, PortMismatch) {
  EXPECT_EQ(mistakes(train("from = \"read\"\n")),
            "p.toml:8:8: port mismatch: 'batch' takes ImageChunk, 'read' gives SampleChunk");
  EXPECT_EQ(mistakes(train("[train.metrics]\nfrom = \"forward_backward.gradients\"\n")),
            "p.toml:9:8: port mismatch: 'metrics' takes StepResult, 'forward_backward' gives GradientBucket and StepResult");
  EXPECT_EQ(mistakes(train("[train.metrics]\nfrom = \"forward_backward.loss\"\n")),
            "p.toml:9:8: 'forward_backward' has no output 'loss'; it has 'gradients', 'result'");
}

TEST_F(PlanRefuses, InputThatNobodyFeeds) {
  EXPECT_EQ(
      mistakes("[train]\nflow = [\"read_folder\", \"batch\"]\n[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
      "p.toml:2:24: 'batch' takes ImageChunk, which no stage before it in the flow of [train] gives ('read_folder' gives "
      "SampleChunk); 'decode_image' would give it");
}

TEST_F(PlanRefuses, FromLeadsBackwards) {
  EXPECT_EQ(
      mistakes(train("from = \"metrics\"\n")),
      "p.toml:8:8: 'from' of 'batch' leads backwards: 'metrics' stands after it in the flow. That is a cycle without credit: "
      "only batches and step tokens flow back, on edges that the framework makes itself");
  EXPECT_EQ(mistakes(train("from = \"batch\"\n")),
            "p.toml:8:8: 'from' of 'batch' leads backwards: 'batch' is the stage itself. That is a cycle without credit: "
            "only batches and step tokens flow back, on edges that the framework makes itself");
}

TEST_F(PlanRefuses, FromNamesNoStage) {
  EXPECT_EQ(mistakes(train("from = \"decode\"\n")),
            "p.toml:8:8: 'from' of 'batch': there is no stage 'decode' in the flow of [train]; nearest is 'decode_image'");
  EXPECT_EQ(mistakes(train("from = [\"augment\", \"read\"]\n")),
            "p.toml:8:8: 'from' of 'batch' names 2 stages, but the stage has 1 input");
}

TEST_F(PlanRefuses, SamplesThatNothingTakes) {
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

TEST_F(PlanRefuses, GradientsThatNoStageUses) {
  registry_.add_stage<PassOn>();
  registry_.add_stage<Evaluate>();
  const std::string tables = "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n";
  const auto said = [&](const std::string& end) {
    return mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"batch\", " + end + "]\n" + tables);
  };
  const std::string message =
      "p.toml:2:49: 'forward_backward' computes gradients, and no stage of [train] uses them, so that nothing is trained; put "
      "'optimizer' behind it in the flow";
  EXPECT_EQ(said("\"forward_backward\", \"metrics\""), message);
  EXPECT_EQ(said("\"forward_backward\", \"allreduce\", \"metrics\""), message);
  EXPECT_EQ(said("\"forward_backward\", \"allreduce\", \"optimizer\""), "");
  EXPECT_EQ(said("\"forward\", \"metrics\""), "");
  EXPECT_EQ(mistakes(train("[check]\nevery = \"epoch\"\nflow = [\"read_folder\", \"decode_image\", \"batch\", "
                           "\"forward_backward\", \"metrics\"]\n[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
            "p.toml:10:49: 'forward_backward' computes gradients, and no stage of [check] uses them; a graph beside the training "
            "takes 'forward' instead");
}

TEST_F(PlanRefuses, SamplesThatTwoStagesTake) {
  registry_.add_stage<Look>();
  EXPECT_EQ(mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"augment\", \"look\", \"batch\"]\n"
                     "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n[train.look]\nfrom = \"decode_image\"\n"),
            "p.toml:2:24: 'augment' and 'look' take what 'decode_image' gives; samples take one way, as stages change them where "
            "they lie");
}

TEST_F(PlanRefuses, NameTwiceInTheFlow) {
  EXPECT_EQ(
      mistakes("[train]\nflow = [\"read_folder\", \"decode_image\", \"decode_image\", \"batch\"]\n"
               "[train.read_folder]\npath = \"x\"\n[train.batch]\nsize = 1\n"),
      "p.toml:2:40: 'decode_image' stands in the flow of [train] twice; a second stage of a type needs a name of its own and a "
      "table [train.name] with stage = \"type\"");
}

TEST_F(PlanRefuses, TableThatIsNotInTheFlow) {
  EXPECT_EQ(mistakes(train("[train.augmnt]\nflip_x = 0.5\n")),
            "p.toml:8:8: [train.augmnt] is not in the flow of [train]; nearest is 'augment'");
}

TEST_F(PlanRefuses, CyclicReference) {
  EXPECT_EQ(mistakes("a = \"${b}\"\nb = \"${a} * 2\"\n" + train()), "p.toml:1:5: '${b}' refers to itself: b -> a -> b");
}

TEST_F(PlanRefuses, UnknownReferenceIsNotReportedTwice) {
  EXPECT_EQ(mistakes(train("[train.augment]\nflip_x = \"${data.flp}\"\n[data]\nflip = 0.5\n")),
            "p.toml:9:10: '${data.flp}' refers to nothing; nearest is '${data.flip}'");
}

TEST_F(PlanRefuses, CyclicExtends) {
  write("base.toml", "extends = \"p.toml\"\n");
  EXPECT_EQ(mistakes("extends = \"base.toml\"\n" + train()),
            "base.toml:1:11: 'extends' leads in a circle: p.toml -> base.toml -> p.toml");
}

TEST_F(PlanRefuses, BadSet) {
  EXPECT_EQ(mistakes(train(), {"run.epochs"}), "--set: expected key.path=value, found 'run.epochs'");
  EXPECT_EQ(mistakes(train(), {"run.epoch=2"}), "--set: [run] has no key 'epoch'; nearest is 'epochs'");
  EXPECT_EQ(mistakes(train(), {"train.augmnt.flip_x=0.1"}),
            "--set: [train.augmnt] is not in the flow of [train]; nearest is 'augment'");
  EXPECT_EQ(mistakes(train(), {"train.augment.flip_x=2"}), "--set: 'flip_x' must be a number between 0 and 1, found 2");
  EXPECT_EQ(mistakes(train(), {"trian.batch.size=2"}),
            "--set: 'trian.batch.size' is set, but the file has no 'trian'; nearest is 'train'");
  EXPECT_EQ(mistakes(train(), {"epochs=3"}), "--set: 'epochs' is set, but the file has no 'epochs'; [run] has it");
  EXPECT_EQ(mistakes(train(), {"optimizer.x=3"}),
            "--set: 'optimizer.x' is set, but the file has no 'optimizer'; the table of that stage is [train.optimizer]");
  EXPECT_EQ(mistakes(train("[data]\nroot = \"x\"\n"), {"data.rot=2"}),
            "--set: 'data.rot' is set, but nothing refers to it; nearest is 'data.root'");
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

TEST_F(PlanRefuses, SyntaxError) { EXPECT_EQ(mistakes("[run\n").substr(0, 10), "p.toml:1:5"); }

TEST_F(PlanRefuses, MissingFile) {
  write("p.toml", "");
  try {
    load_pipeline("q.toml", {}, registry_);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "there is no file 'q.toml'; nearest is 'p.toml'");
  }
}

TEST_F(PlanRefuses, WrongEvery) {
  EXPECT_EQ(mistakes(train("[check]\nevery = \"2 epoch\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                           "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
            "p.toml:9:9: 'every' must be \"epoch\", \"end\", \"never\" (only with --graph), or such as \"2 epochs\", \"0.5 "
            "epochs\" or \"100 steps\" (a fraction "
            "is for epochs only), found \"2 epoch\"; write \"2 epochs\"");
  EXPECT_EQ(mistakes(train("[check]\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
                           "[check.read_folder]\npath = \"y\"\n[check.batch]\nsize = 5\n")),
            "p.toml:8:1: [check] needs 'every', \"epoch\", \"end\", \"never\" (only with --graph), or such as \"2 epochs\", "
            "\"0.5 epochs\" or \"100 steps\" (a "
            "fraction "
            "is for epochs only): one graph is the run itself, and that is [train]");
}

TEST_F(PlanRefuses, MisspeltTablesThatNobodyUses) {
  EXPECT_EQ(mistakes(train("[rnu]\nepochs = 2\n")),
            "p.toml:8:2: 'rnu' means nothing here and nothing refers to it; nearest is 'run'");
  EXPECT_EQ(mistakes(train("[probe]\nflwo = [\"read\"]\n")),
            "p.toml:9:1: [probe] has no key 'flwo'; nearest is 'flow', which would make it a graph");
  EXPECT_EQ(mistakes("[run]\nepochs = 1\n"), "p.toml:1:1: there is no graph in this file: a table with flow = [\"stage\", ...]");
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
            "p.toml:2:10: 'epochs' must be a number between 0 and 1000000000, found -1\n"
            "p.toml:3:13: 'precision' must be one of \"auto\", \"fp32\", \"tf32\", \"bf16\", found \"fp61\"\n"
            "p.toml:5:17: there is no stage 'decode_imge'; nearest is 'decode_image'\n"
            "p.toml:6:1: [train.read] needs 'path': folder of the images\n"
            "p.toml:8:11: 'shuffle' must be one of \"never\", \"once\", \"every-epoch\", found \"always\"\n"
            "p.toml:10:8: 'size' must be an integer of at least 1, found \"big\"\n"
            "p.toml:12:7: there is no file 'networks/large.toml'; its folder has 'small.toml'");
}

}  // namespace
}  // namespace millrace::plan_test
