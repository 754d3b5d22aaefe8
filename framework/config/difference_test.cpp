#include "config/difference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "toml/document.h"

namespace millrace {
namespace {

Value table_of(const std::string& text) {
  Diagnostics errors;
  const auto value = parse_toml(text, "p.toml", errors);
  EXPECT_EQ(errors.text(), "");
  return value ? *value : Value();
}

std::vector<std::string> differences_of(const std::string& then, const std::string& now) {
  std::vector<std::string> found;
  for (const Difference& each : differences(table_of(then), table_of(now))) {
    found.push_back(fmt::format("{}: {} -> {}", each.key, each.then, each.now));
  }
  return found;
}

using Found = std::vector<std::string>;

TEST(Differences, NameEachKeyWithBothValues) {
  EXPECT_EQ(differences_of("[run]\nseed = 1\nepochs = 2.5\n[train]\nflow = [\"a\"]\n[train.a]\nx = 1\ny = { z = 3 }\n",
                           "[run]\nseed = 2\nepochs = 2.5\n[train]\nflow = [\"a\"]\n[train.a]\ny = { z = 4 }\nw = true\n"),
            (Found{"run.seed: 1 -> 2", "train.a.x: 1 -> ", "train.a.y.z: 3 -> 4", "train.a.w:  -> true"}));
}

TEST(Differences, AreFoundInWhatEndsTheRunOrLowersItsRate) {
  EXPECT_EQ(differences_of("[stop]\npatience = 5\n[plateau]\nfigure = \"train.loss\"\n",
                           "[stop]\npatience = 6\n[plateau]\nfigure = \"train.loss\"\nfactor = 0.5\n"),
            (Found{"stop.patience: 5 -> 6", "plateau.factor:  -> 0.5"}));
}

TEST(Differences, AreFoundInListsAndInWholeGraphs) {
  EXPECT_EQ(differences_of("[train]\nflow = [\"a\", \"b\"]\n", "[train]\nflow = [\"a\"]\n[test]\nflow = [\"a\"]\n"),
            (Found{"train.flow: [\"a\", \"b\"] -> [\"a\"]", "test.flow:  -> [\"a\"]"}));
}

TEST(Differences, OfDocumentsNameTheEntryOfAList) {
  const std::string then = "mean = [0.5, 0.5]\nlayers = [ { op = \"dropout\", probability = 0.3 }, { op = \"relu\" } ]\n";
  const auto found = [&](const std::string& now) {
    std::vector<std::string> texts;
    for (const Difference& each : document_differences("network.use", table_of(then), table_of(now)))
      texts.push_back(fmt::format("{}: {} -> {}", each.key, each.then, each.now));
    return texts;
  };
  EXPECT_EQ(found(then), Found());
  EXPECT_EQ(found("layers = [ { probability = 0.5, op = \"dropout\" }, { op = \"gelu\" } ]\nmean = [0.5, 0.25]\n"),
            (Found{"network.use.mean: [0.5, 0.5] -> [0.5, 0.25]", "network.use.layers[0].probability: 0.3 -> 0.5",
                   "network.use.layers[1].op: \"relu\" -> \"gelu\""}));
  EXPECT_EQ(found("mean = [0.5, 0.5]\nlayers = [ { op = \"relu\" } ]\n"), Found{"network.use.layers: 2 entries -> 1 entries"});
  EXPECT_TRUE(is_allowed("network.use.layers[0].probability", {"network.use"}));
}

TEST(Differences, DoNotDependOnTheOrderOfKeys) {
  EXPECT_EQ(differences_of("[run]\nseed = 1\nepochs = 2\n", "[run]\nepochs = 2\nseed = 1\n"), Found());
}

struct Part {
  std::int64_t size = 1, buffers = 1;
};

TEST(Differences, LeaveOutWhatCannotChangeResults) {
  ParamSet<Part> params;
  params.add("size", &Part::size);
  params.add("buffers", &Part::buffers).may_change();
  StageType type;
  type.params = params.infos();
  GraphPlan graph;
  graph.name = "train";
  graph.stages.push_back({"collect", &type, {}, {}, {}});
  Pipeline pipeline;
  pipeline.graphs.push_back(graph);
  const Value then = table_of(
      "[run]\nthreads = 1\nlog_every = 2\nseed = 1\n[checkpoint]\nkeep = 1\n[data]\nroot = \"a\"\n[network]\nweights = "
      "\"a.pth\"\n"
      "[train]\nflow = []\n[train.collect]\nsize = 1\nbuffers = 2\n[train.other]\nbuffers = 2\n");
  const Value now = table_of(
      "[run]\nio_threads = 7\nfolder = \"elsewhere\"\nname = \"b\"\nseed = 2\n[observe]\nledger = false\n"
      "[train]\nflow = []\n[train.collect]\nsize = 3\nbuffers = 4\n[train.other]\nbuffers = 4\n");
  Found keys;
  for (const Difference& each : differences(then, now, keys_that_may_change(pipeline))) keys.push_back(each.key);
  EXPECT_EQ(keys, (Found{"run.seed", "train.collect.size", "train.other.buffers"}));
}

TEST(Differences, AreAllowedByKeyOrByTable) {
  EXPECT_TRUE(is_allowed("train.batch.size", {"run.seed", "train.batch.size"}));
  EXPECT_TRUE(is_allowed("train.batch.size", {"train.batch"}));
  EXPECT_FALSE(is_allowed("train.batch.size", {"train.bat", "train.batch.size.x"}));
}

}  // namespace
}  // namespace millrace
