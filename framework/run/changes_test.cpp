#include "run/changes.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "testkit/files.h"

namespace millrace {
namespace {

std::string text_of(const std::vector<Difference>& differences) {
  std::string text;
  for (const Difference& each : differences) text += each.key + " was " + each.then + ", is " + each.now + "\n";
  return text;
}

TEST(Changes, OfTheDataAreTheNumberOfSamplesAndTheClasses) {
  using Data = std::map<std::string, RunState::Data>;
  const Data then = {{"train.read", {240, {"circle", "ring"}}}, {"validate.read", {60, {}}}};
  EXPECT_EQ(text_of(data_differences(then, then, {})), "");
  EXPECT_EQ(text_of(data_differences({}, then, {})), "") << "an older checkpoint";
  EXPECT_EQ(text_of(data_differences(then, {{"train.read", {270, {"aaa", "circle"}}}}, {})),
            "train.read.samples was 240, is 270\ntrain.read.classes was class 0 'circle', is class 0 'aaa'\n");
  EXPECT_EQ(text_of(data_differences(then, {{"train.read", {240, {"circle"}}}}, {})),
            "train.read.classes was 2 classes, is 1 classes\n");
}

TEST(Changes, OfTheDataAreAnotherListingOfAsManySamples) {
  using Data = std::map<std::string, RunState::Data>;
  const auto differences = [](const RunState::Data& then, const RunState::Data& now) {
    return text_of(data_differences({{"train.read", then}}, {{"train.read", now}}, {{"train.read", "mine.toml:14:1"}}));
  };
  const std::vector<std::string> classes = {"circle", "ring"};
  const RunState::Data then = {240, classes, {120, 120}, 0xfedcba9876543210};
  EXPECT_EQ(differences(then, then), "");
  EXPECT_EQ(differences({240, classes}, then), "") << "an older checkpoint";
  const std::string what = "(mine.toml:14:1: names of samples, their labels or their order have changed)\n";
  EXPECT_EQ(differences(then, {240, classes, {120, 120}, 1}),
            "train.read.listing was fedcba9876543210, is 0000000000000001 " + what);
  EXPECT_EQ(differences(then, {240, classes, {120, 119}, 1}), "train.read.listing was 120 of class 'ring', is 119 " + what);
  EXPECT_EQ(differences(then, {241, classes, {120, 121}, 1}), "train.read.samples was 240, is 241\n") << "that says it";
  EXPECT_EQ(text_of(data_differences(Data{{"train.read", then}}, Data{{"train.read", {240, classes, {120, 120}, 1}}}, {})),
            "train.read.listing was fedcba9876543210, is 0000000000000001 (names of samples, their labels or their order have "
            "changed)\n");
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
  const Error error = testkit::error_of([&] { require_keys({"run.epochs", "run.epoch"}, keys); });
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_STREQ(error.what(), "--allow-change run.epoch: there is no such key; nearest is 'run.epochs'");
}

}  // namespace
}  // namespace millrace
