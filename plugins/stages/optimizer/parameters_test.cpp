// What is said of the stage's parameters before there is a stage, and when it is made.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "optimizer.h"
#include "testkit/harness.h"
#include "testkit/plain.h"

namespace millrace {
namespace {

using testkit::table;

std::string said(const char* key, const Value& written) {
  Diagnostics errors;
  StageTypeAccess::make<Optimizer>().check(table({{key, written}}), "[train.optimizer]", errors);
  return errors.text();
}

// An empty one would say nothing and do nothing.
TEST(OptimizerParameters, TablesNeedWhatTheyAreAbout) {
  for (const auto& [key, needed, other] :
       {std::tuple{"scale_with_batch", "reference", table({{"scaling", Value(std::string("square_root"))}})},
        std::tuple{"ema", "decay", table({{"every", Value(std::int64_t{2})}})},
        std::tuple{"lookahead", "every", table({{"decay", Value(0.5)}})}}) {
    const std::string expected = fmt::format("'{}' needs '{}': ", key, needed);
    EXPECT_EQ(said(key, table({})).find(expected), 0U) << said(key, table({}));
    EXPECT_EQ(said(key, other).find(expected), 0U) << said(key, other);
  }
  EXPECT_EQ(said("scale_with_batch", table({{"reference", Value(256.0)}})), "");
}

// Of a run of 4 epochs whose network has a frozen parameter.
std::vector<std::string> warnings(const Value& parameters, int replica = 0) {
  Network network = testkit::small_network({2, 2, 1}, 3, 2);
  network.parameters[0].trainable = false;
  StageContext context;
  context.graph = "train";
  context.at = {std::make_shared<const std::string>("p.toml"), 7, 1};
  context.network = &network;
  context.replica = replica;
  context.steps_per_epoch = 10;
  context.total_steps = context.last_step = 40;
  testkit::Harness harness(StageTypeAccess::make<Optimizer>(), parameters, context);
  return harness.run().warnings();
}

using Warnings = std::vector<std::string>;

TEST(OptimizerParameters, AWarmUpThatIsLongerThanTheRunIsWarnedOf) {
  const auto warm_up = [](double epochs) { return table({{"learning_rate", table({{"warmup_epochs", Value(epochs)}})}}); };
  EXPECT_EQ(
      warnings(warm_up(5)),
      Warnings{"p.toml:7:1: [train.optimizer]: the run of 40 steps ends within the warm-up of learning_rate, which takes 50"});
  EXPECT_EQ(warnings(warm_up(4)), Warnings{});
  EXPECT_EQ(warnings(warm_up(5), 1), Warnings{}) << "the first replica says it";
}

TEST(OptimizerParameters, AGroupThatTrainsNothingIsWarnedOf) {
  const auto group = [](std::size_t parameter) {
    const std::string name = testkit::small_network({2, 2, 1}, 3, 2).parameters[parameter].name;
    return table({{"groups", Value(Array{table({{"match", Value(name)}, {"rate_factor", Value(2.0)}})})}});
  };
  EXPECT_EQ(warnings(group(0)),
            Warnings{"p.toml:7:1: [train.optimizer]: number 1 of groups has no effect: none of its parameters is trained"});
  EXPECT_EQ(warnings(group(1)), Warnings{});
}

}  // namespace
}  // namespace millrace
