#include "checkpoint/changes.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

std::string text_of(const std::vector<Difference>& differences) {
  std::string text;
  for (const Difference& each : differences) text += each.key + ": " + each.then + " before, now " + each.now + "\n";
  return text;
}

TEST(Changes, OfTheDataAreTheNumberOfSamplesAndTheClasses) {
  using Data = std::map<std::string, SavedState::Data>;
  const Data then = {{"train.read", {240, {"circle", "ring"}}}, {"validate.read", {60, {}}}};
  EXPECT_EQ(text_of(data_differences(then, then, {})), "");
  EXPECT_EQ(text_of(data_differences({}, then, {})), "") << "an older checkpoint";
  EXPECT_MESSAGE(text_of(data_differences(then, {{"train.read", {270, {"aaa", "circle"}}}}, {})));
  EXPECT_MESSAGE(text_of(data_differences(then, {{"train.read", {240, {"circle"}}}}, {})));
}

TEST(Changes, OfTheDataAreAnotherListingOfAsManySamples) {
  using Data = std::map<std::string, SavedState::Data>;
  const auto differences = [](const SavedState::Data& then, const SavedState::Data& now) {
    return text_of(data_differences({{"train.read", then}}, {{"train.read", now}}, {{"train.read", "mine.toml:14:1"}}));
  };
  const std::vector<std::string> classes = {"circle", "ring"};
  const SavedState::Data then = {240, classes, {120, 120}, 0xfedcba9876543210};
  EXPECT_EQ(differences(then, then), "");
  EXPECT_EQ(differences({240, classes}, then), "") << "an older checkpoint";
  const std::string what = "(mine.toml:14:1: names of samples, their labels or their order have changed)\n";
  EXPECT_MESSAGE(differences(then, {240, classes, {120, 120}, 1}));
  EXPECT_MESSAGE(differences(then, {240, classes, {120, 119}, 1}));
  EXPECT_MESSAGE(differences(then, {241, classes, {120, 121}, 1}));
  EXPECT_MESSAGE(text_of(data_differences(Data{{"train.read", then}}, Data{{"train.read", {240, classes, {120, 120}, 1}}}, {})));
}

TEST(Changes, OfWhereDataLieCountNotWhereTheyListTheSame) {
  FoundCheckpoint from{"runs/x/checkpoints/step-000000004", {}};
  from.checkpoint.pipeline = "[train]\nflow = [\"read\"]\n[train.read]\npath = \"photos\"\nfile = \"a\"\n";
  from.checkpoint.state.data = {{"train.read", {240, {}, {}, 7}}};
  RunRecord now;
  now.pipeline = "[train]\nflow = [\"read\"]\n[train.read]\npath = \"/moved/list.csv\"\nroot = \"/photos\"\nfile = \"b\"\n";
  now.data = from.checkpoint.state.data;
  const auto keys = [&] {
    std::string text;
    for (const Difference& each : compare_with_checkpoint(from, now, Pipeline()).differences) text += each.key + " ";
    return text;
  };
  EXPECT_EQ(keys(), "train.read.file ");
  now.data["train.read"].listing_hash = 8;
  EXPECT_EQ(keys(), "train.read.path train.read.file train.read.root train.read.listing ");
}

TEST(Changes, AreThoseOfFileNetworkDataAndDevices) {
  FoundCheckpoint from{"runs/x/checkpoints/step-000000004", {}};
  from.checkpoint.pipeline = "[run]\nepochs = 3\nthreads = 1\nseed = 1\ndevices = \"cpu\"\n[network]\nuse = \"a.toml\"\n";
  from.checkpoint.state.network = "layers = [{ op = \"dropout\", probability = 0.3 }]\n";
  from.checkpoint.state.data = {{"train.read", {240, {"circle"}}}};
  from.checkpoint.state.backend = "cpu";
  from.checkpoint.state.precision = "fp32";
  from.checkpoint.state.replicas = 1;
  RunRecord now;
  now.pipeline = from.checkpoint.pipeline;
  now.network = from.checkpoint.state.network;
  now.data = from.checkpoint.state.data;
  now.backend = "cpu";
  now.precision = "fp32";
  now.replicas = 1;
  const Pipeline plan;
  EXPECT_EQ(text_of(compare_with_checkpoint(from, now, plan).differences), "");
  now.pipeline = "[run]\nepochs = 4\nthreads = 8\nseed = 1\ndevices = \"cpu*2\"\n[network]\nuse = \"b.toml\"\n";
  EXPECT_MESSAGE(text_of(compare_with_checkpoint(from, now, plan).differences));
  now.network = "layers = [{ op = \"dropout\", probability = 0.5 }]\n";
  now.data["train.read"].samples = 270;
  now.precision = "bf16";
  now.replicas = 2;
  const RunComparison changed = compare_with_checkpoint(from, now, plan);
  EXPECT_MESSAGE(text_of(changed.differences));
  const Error refused = testkit::error_of([&] {
    require_allowed(changed, {"network", "train.read.samples", "run.epochs"}, "x.toml", "C");
  });
  EXPECT_MESSAGE(refused.message());
  EXPECT_NO_THROW(require_allowed(changed, {"run", "network.use", "train.read.samples"}, "x.toml", "C"));
}

TEST(Changes, MayBeAllowedOfKeysThatThereAre) {
  const Value layer(Table{{"probability", {}, Value(0.5)}});
  const Value network(Table{{"layers", {}, Value(Array{layer, layer})}});
  std::vector<std::string> keys;
  add_keys("network.use", network, keys);
  add_possible_keys({}, keys);
  EXPECT_NO_THROW(require_keys({"network.use", "network.use.layers", "network.use.layers[1].probability", "run.epochs", "stop",
                                "stop.max_steps", "plateau.factor"},
                               keys));
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { require_keys({"run.epochs", "run.epoch"}, keys); }).what());
}

}  // namespace
}  // namespace millrace
