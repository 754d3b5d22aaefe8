// Pipeline files and the plans read from them.
#include <fmt/format.h>

#include "config/plan_fixture.h"

#include "testkit/messages.h"

namespace millrace::plan_test {
namespace {

class Plan : public PlanFixture {};

TEST_F(Plan, HoldsStagesInFlowOrderAndTheirEdges) {
  const Pipeline pipeline = load(train("[train.augment]\nflip_x = 0.5\n"));
  ASSERT_EQ(pipeline.graphs.size(), 1U);
  const GraphPlan& graph = pipeline.graphs[0];
  ASSERT_EQ(graph.stages.size(), 7U);
  EXPECT_EQ(graph.stages[0].name, "read");
  EXPECT_EQ(graph.stages[0].type->name, "read_folder");
  EXPECT_EQ(to_toml(graph.stages[0].table), "path = \"x\"\n");
  EXPECT_EQ(to_toml(graph.stages[2].table), "flip_x = 0.5\n");
  std::string edges;
  for (const EdgePlan& e : graph.edges) {
    edges += fmt::format("{}.{}>{}.{} ", graph.stages[static_cast<std::size_t>(e.from_stage)].name, e.from_port,
                         graph.stages[static_cast<std::size_t>(e.to_stage)].name, e.to_port);
  }
  EXPECT_EQ(edges,
            "read.0>decode_image.0 decode_image.0>augment.0 augment.0>batch.0 batch.0>forward_backward.0 "
            "forward_backward.0>optimizer.0 forward_backward.1>metrics.0 ");
  EXPECT_EQ(pipeline.graph("train"), &graph);
  EXPECT_EQ(pipeline.graph("validate"), nullptr);
}

TEST_F(Plan, KnowsWhereTheFileSaysWhat) {
  const Pipeline pipeline = load(train("[run]\nepochs = 2\n"), {"train.augment.flip_x=0.5", "train.batch.size=8", "run.seed=3"});
  std::string places;
  for (const StagePlan& stage : pipeline.graphs[0].stages) places += to_string(stage.table_at()).substr(7) + " ";
  EXPECT_EQ(places, "3:1 2:17 2:33 6:1 2:53 2:73 2:86 ") << "a table of --set alone is nothing that can be looked up";
  EXPECT_EQ(pipeline.place_of("run.epochs"), "p.toml:9:10");
  EXPECT_EQ(pipeline.place_of("run.seed"), "--set run.seed");
  EXPECT_EQ(pipeline.place_of("run.on_nan"), "p.toml:8:1") << "the table";
  EXPECT_EQ(pipeline.place_of("checkpoint.every"), "p.toml");
}

// A declared choice is not secret, and a resumed run with another one must be refused.
TEST_F(Plan, KeepsWordsOfTheEnvironmentAndNoOtherTextOfIt) {
  setenv("MILLRACE_TEST_BORDER", "constant", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  setenv("MILLRACE_TEST_ROOT", "pa55", 1);        // NOLINT(concurrency-mt-unsafe)
  const Pipeline pipeline = load(train("[train.augment]\nborder = \"${env.MILLRACE_TEST_BORDER}\"\n"),
                                 {"train.read.path=https://me:${env.MILLRACE_TEST_ROOT}@host/x"});
  const std::string kept = to_toml(pipeline.resolved);
  EXPECT_NE(kept.find("border = \"constant\"\n"), std::string::npos) << kept;
  EXPECT_NE(kept.find("path = \"https://me:${env.MILLRACE_TEST_ROOT}@host/x\"\n"), std::string::npos) << kept;
}

TEST_F(Plan, FromChoosesTheStage) {
  const auto edges_to_metrics = [&](const std::string& from) {
    const Pipeline pipeline = load(
        "[train]\nflow = [\"read\", \"decode_image\", \"batch\", \"first\", \"second\", \"metrics\", \"optimizer\"]\n"
        "[train.read]\nstage = \"read_folder\"\npath = \"x\"\n[train.batch]\nsize = 4\n"
        "[train.first]\nstage = \"forward_backward\"\n[train.second]\nstage = \"forward_backward\"\n[train.metrics]\n" +
        from);
    EXPECT_EQ(to_toml(pipeline.graphs[0].stages[5].table), "");
    std::string givers;
    for (const EdgePlan& edge : pipeline.graphs[0].edges) {
      if (edge.to_stage == 5) givers += pipeline.graphs[0].stages[static_cast<std::size_t>(edge.from_stage)].name;
    }
    return givers;
  };
  EXPECT_EQ(edges_to_metrics(""), "second");
  EXPECT_EQ(edges_to_metrics("from = \"first\"\n"), "first");
}

TEST_F(Plan, RunHasDefaults) {
  const Pipeline pipeline = load(train("[run]\nepochs = 9.9\nthreads = \"auto\"\n"));
  EXPECT_EQ(pipeline.run.name, "p");
  EXPECT_EQ(pipeline.run.epochs, 9.9);
  EXPECT_EQ(pipeline.run.threads, 0);
  EXPECT_EQ(pipeline.run.devices, "auto");
  EXPECT_EQ(pipeline.run.tune, "heuristic");
  EXPECT_TRUE(pipeline.run.deterministic);
  EXPECT_TRUE(pipeline.run.graphs);
  EXPECT_FALSE(pipeline.run.recompute);
}

TEST_F(Plan, RunSaysHowDevicesCompute) {
  const RunParams run = load(train("[run]\ntune = \"measure\"\ndeterministic = false\ngraphs = false\nrecompute = true\n")).run;
  EXPECT_EQ(run.tune, "measure");
  EXPECT_FALSE(run.deterministic);
  EXPECT_FALSE(run.graphs);
  EXPECT_TRUE(run.recompute);
  EXPECT_EQ(mistakes(train("[run]\ntune = \"mesure\"\n")).find("p.toml:"), 0U);
}

TEST_F(Plan, NetworkLiesBesideTheFileAndTakesVariables) {
  const Pipeline pipeline = load(train("[network]\nuse = \"networks/small.toml\"\nclasses = 7\n"));
  ASSERT_NE(pipeline.network, nullptr);
  EXPECT_EQ(pipeline.network->output(), Shape({7}));
  EXPECT_EQ(pipeline.network_table.find("use")->text(), "networks/small.toml");
}

TEST_F(Plan, NetworkOfTheZooIsFoundByItsName) {
  const Pipeline beside = load(train("[network]\nuse = \"small\"\nclasses = 7\n"));
  EXPECT_EQ(beside.network_table.find("use")->text(), "networks/small.toml");
  const Pipeline of_this_tree = load(train("[network]\nuse = \"resnet18\"\nclasses = 7\n"));
  EXPECT_EQ(of_this_tree.network->name, "resnet18");
  EXPECT_TRUE(of_this_tree.network_table.find("use")->text().ends_with("share/millrace/pipelines/networks/resnet18.toml"));
}

TEST_F(Plan, BaseFileIsFoundBesideAFolderOfItsName) {
  fs::create_directories("named/recipes");
  fs::create_directories("restore");
  write("named/recipes/restore.toml", "[run]\nepochs = 3\n");
  setenv("MILLRACE_PIPELINES", "named", 1);
  const Pipeline extended = load("extends = \"restore\"\n" + train(""));
  unsetenv("MILLRACE_PIPELINES");
  EXPECT_EQ(extended.run.epochs, 3);
}

TEST_F(Plan, NetworkOfTheZooIsLookedForBesideTheFileFirstThenInTheFolderOfTheEnvironment) {
  fs::create_directories("named/networks");
  fs::copy_file("networks/small.toml", "named/networks/resnet18.toml");
  fs::copy_file("networks/small.toml", "named/networks/small.toml");
  setenv("MILLRACE_PIPELINES", "named", 1);
  const Pipeline named = load(train("[network]\nuse = \"resnet18\"\nclasses = 7\n"));
  const Pipeline beside = load(train("[network]\nuse = \"small\"\nclasses = 7\n"));
  unsetenv("MILLRACE_PIPELINES");
  EXPECT_EQ(named.network_table.find("use")->text(), "named/networks/resnet18.toml");
  EXPECT_EQ(beside.network_table.find("use")->text(), "networks/small.toml");
}

TEST_F(Plan, WhatIsNamedAndCannotBeReachedIsNotLookedForElsewhere) {
  fs::create_symlink("gone.toml", "networks/resnet18.toml");
  const auto complaint = [&](const std::string& network) { return mistakes(train("[network]\n" + network)); };
  const std::string zoo = complaint("use = \"resnet18\"\nclasses = 7\n");
  EXPECT_MESSAGE(zoo);
  fs::create_directories("run");
  write("run/weights.safetensors", "the last, not the best");
  fs::create_symlink("gone.safetensors", "run/best.safetensors");
  const std::string best = complaint("use = \"small\"\nclasses = 7\nweights = \"run\"\n");
  EXPECT_MESSAGE(best);
  setenv("MILLRACE_PIPELINES", "nowhere", 1);
  const std::string folder = complaint("use = \"small\"\nclasses = 7\n");
  unsetenv("MILLRACE_PIPELINES");
  EXPECT_MESSAGE(folder);
}

TEST_F(Plan, NetworkSaysWhichWeightsItTakes) {
  write("networks/old.pth", "");
  const Pipeline pipeline =
      load(train("[network]\nuse = \"small\"\nweights = \"networks/old.pth\"\nnew = [\"fc.weight\"]\nclasses = 7\n"
                 "rename = [{ from = \"module.*\", to = \"*\" }]\nfreeze = [\"fc.bias\"]\n"));
  const NetworkParams& params = pipeline.network_params;
  EXPECT_EQ(params.use, "networks/small.toml");
  EXPECT_EQ(params.weights.file, "networks/old.pth");
  EXPECT_EQ(params.fresh, std::vector<std::string>{"fc.weight"});
  EXPECT_EQ(params.freeze, std::vector<std::string>{"fc.bias"});
  ASSERT_EQ(params.rename.size(), 1U);
  EXPECT_EQ(params.rename[0].from, "module.*");
  EXPECT_EQ(params.rename[0].to, "*");
  ASSERT_EQ(pipeline.network->parameters.size(), 2U);
  EXPECT_TRUE(pipeline.network->parameters[0].trainable);
  EXPECT_FALSE(pipeline.network->parameters[1].trainable);
}

TEST_F(Plan, TheGraphWithoutEveryComesFirst) {
  const Pipeline pipeline = load(
      "[validate]\nevery = \"2 epochs\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
      "[validate.read_folder]\npath = \"y\"\n[validate.batch]\nsize = 5\n" +
      train());
  ASSERT_EQ(pipeline.graphs.size(), 2U);
  EXPECT_EQ(pipeline.graphs[0].name, "train");
  EXPECT_EQ(pipeline.graphs[1].every, "2 epochs");
}

TEST_F(Plan, ResolvedFileCanBeReadAgain) {
  const std::string text = train("[network]\nuse = \"networks/small.toml\"\nclasses = \"${n} + 1\"\n[data]\nroot = \"a\"\n");
  const Pipeline first = load("n = 1\n" + text, {"n=4", "train.read.path=${data.root}/train"});
  EXPECT_EQ(first.graphs[0].stages[0].table.find("path")->text(), "a/train");
  const Pipeline again = load(to_toml(first.resolved));
  EXPECT_EQ(to_toml(again.resolved), to_toml(first.resolved));
  EXPECT_EQ(again.network->output(), Shape({5}));
  EXPECT_EQ(again.warnings, std::vector<std::string>()) << "the record has no variable that nothing refers to any more";
}

// Such tables would look like a stage's outside its graph, and like a graph without its flow.
TEST_F(Plan, WhatIsResolvedHasNoTablesOfVariablesThatWereUsed) {
  const Pipeline first =
      load(train("[train.augment]\nflip_x = \"${augment.flip}\"\nborder = \"${words.batch.border}\"\n"
                 "[augment]\nflip = 0.5\n[words.batch]\nborder = \"constant\"\n"));
  const std::string text = to_toml(first.resolved);
  EXPECT_EQ(mistakes(text), "");
  EXPECT_EQ(to_toml(load(text).resolved), text);
  EXPECT_EQ(mistakes(text, {"augment.flip=1"}).find("--set augment.flip: "), 0U) << "it would change nothing";
}

TEST_F(Plan, FoldersForTrainingThatAreLeftOutAreWarnedOf) {
  const auto add = [](const char* folder) { std::filesystem::create_directories(folder); };
  std::string text = train("[data]\npath = \"d\"\n");
  const std::string named = "stage = \"read_folder\"\npath = \"x\"\n";
  text.replace(text.find(named), named.size(), "");
  for (const char* folder : {"d/train/a", "d/val/a", "d/test/a", "d/tools"}) add(folder);
  EXPECT_EQ(load(text).warnings, std::vector<std::string>{});
  add("d/train2");
  add("d/train_extra");
  const std::vector<std::string> warnings = load(text).warnings;
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_MESSAGE(warnings[0]);
}

TEST_F(Plan, AValueThatNothingRefersToIsWarnedOf) {
  const auto warned = [&](const std::string& text, const std::vector<std::string>& overrides = {}) {
    return fmt::format("{}", fmt::join(load(text, overrides).warnings, "\n"));
  };
  const std::string used = train("[train.augment]\nflip_x = \"${often}\"\n");
  EXPECT_MESSAGE(warned("often = 1\n" + train()));
  EXPECT_EQ(warned("often = 1\n" + used), "");
  EXPECT_EQ(warned("often = 1\n" + used, {"train.augment.flip_x=0"}), "") << "it is used without --set";
  EXPECT_EQ(warned(used, {"often=1"}), "");
  const std::string stray = "nothing refers to [early_stopping], so it has no effect; as for 'patience', ";
  EXPECT_NE(warned(train("[early_stopping]\npatience = 3\n")).find(stray), std::string::npos);
  write("base.toml", "often = 1\nseldom = 0\n" + used + "[mine]\nroot = \"x\"\n");
  EXPECT_EQ(warned("extends = \"base.toml\"\n[train.augment]\nflip_x = \"${seldom}\"\n"), "") << "the base uses it";
  EXPECT_MESSAGE(warned("extends = \"base.toml\"\n"));
  const std::string aside =
      "[aside]\nevery = \"never\"\nflow = [\"read_folder\", \"decode_image\", \"batch\"]\n"
      "[aside.read_folder]\npath = \"${place}\"\n[aside.batch]\nsize = 5\n";
  EXPECT_EQ(warned("place = \"y\"\n" + train(aside)), "") << "with --graph alone";
}

}  // namespace
}  // namespace millrace::plan_test
