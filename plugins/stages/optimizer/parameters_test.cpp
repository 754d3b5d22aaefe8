// Messages about the stage's parameters before there is a stage, and when it is made.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "optimizer.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/plain.h"

namespace millrace {
namespace {

using testkit::table;

std::string said(const char* key, const Value& written) {
  Diagnostics errors;
  StageTypeAccess::make<OptimizerStage>().check(table({{key, written}}), "[train.optimizer]", errors);
  return errors.text();
}

// An empty one would have no effect.
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

TEST(OptimizerParameters, APlateauIsNoSchedule) {
  EXPECT_NE(said("learning_rate", table({{"schedule", Value(std::string("plateau"))}}))
                .find("found \"plateau\"; that is a table of its own, [plateau], whatever the schedule"),
            std::string::npos);
}

// The warnings of a run of 4 epochs whose network has a frozen parameter.
std::vector<std::string> warnings(const Value& parameters, int replica = 0) {
  Network network = testkit::small_network({2, 2, 1}, 3, 2);
  network.parameters[0].trainable = false;
  StepContext context;
  context.graph = "train";
  context.at = {std::make_shared<const std::string>("p.toml"), 7, 1};
  context.network = &network;
  context.replica = replica;
  context.steps_per_epoch = 10;
  context.total_steps = context.last_step = 40;
  testkit::Harness harness(StageTypeAccess::make<OptimizerStage>(), parameters, context);
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
            Warnings{"p.toml:7:1: [train.optimizer]: group 1 has no effect: none of its parameters is trained"});
  EXPECT_EQ(warnings(group(1)), Warnings{});
}

std::string warning(const char* key, const Value& written) {
  const Warnings all = warnings(table({{key, written}}));
  const std::string place = "p.toml:7:1: [train.optimizer]: ";
  EXPECT_LE(all.size(), 1U);
  return all.empty() ? "" : all[0].starts_with(place) ? all[0].substr(place.size()) : all[0];
}

TEST(OptimizerParameters, AScheduleThatChangesNothingInTheRunIsWarnedOf) {
  const auto schedule = [](const char* name, const char* key, const Value& value) {
    return warning("learning_rate", table({{"schedule", Value(std::string(name))}, {"initial", Value(0.5)}, {key, value}}));
  };
  const auto nothing = [](const std::string& name) {
    return "schedule = \"" + name + "\" has no effect: the rate stays at 0.5 in the 40 steps of the run";
  };
  EXPECT_EQ(schedule("piecewise", "drop_epochs", Value(4.0)), nothing("piecewise"));
  EXPECT_EQ(schedule("piecewise", "drop_epochs", Value(3.9)), "");
  EXPECT_EQ(schedule("piecewise", "drops", Value(Array{Value(4.0), Value(8.0)})), nothing("piecewise"));
  EXPECT_EQ(schedule("exponential", "drop_factor", Value(1.0)), nothing("exponential"));
  EXPECT_EQ(schedule("cosine", "final_factor", Value(1.0)), nothing("cosine"));
  EXPECT_EQ(schedule("cosine", "final_factor", Value(0.9)), "");
  EXPECT_EQ(schedule("polynomial", "power", Value(0.0)), nothing("polynomial"));
  EXPECT_EQ(schedule("triangular", "peak", Value(0.3)), "");
  EXPECT_MESSAGE(schedule("piecewise", "drop_steps", Value(std::int64_t{1})));
}

TEST(OptimizerParameters, LookaheadAndAveragesWithoutEffectAreWarnedOf) {
  const auto every = [](std::int64_t steps) { return table({{"every", Value(steps)}}); };
  EXPECT_MESSAGE(warning("lookahead", every(41)));
  EXPECT_MESSAGE(warning("lookahead", every(1)));
  EXPECT_MESSAGE(warning("lookahead", table({{"every", Value(std::int64_t{5})}, {"decay", Value(0.0)}})));
  EXPECT_EQ(warning("lookahead", every(40)), "");
  EXPECT_EQ(warning("lookahead", every(0)), "") << "that turns it off";

  const auto ema = [](std::int64_t steps) { return table({{"decay", Value(0.9)}, {"every", Value(steps)}}); };
  EXPECT_MESSAGE(warning("ema", ema(21)));
  EXPECT_MESSAGE(warning("ema", ema(20)));
  EXPECT_EQ(warning("ema", ema(2)), "") << "14 %";

  const auto average = [](double start, std::int64_t steps) {
    Value written = table({{"start", Value(start)}});
    if (steps > 0) written.set("every", Value(steps));
    return warning("average", written);
  };
  const std::string mean = "average has no effect: a mean needs two points, and from start = ";
  EXPECT_EQ(average(1, 0), mean + "1 the run has 1") << "the end of the last epoch";
  EXPECT_EQ(average(0.8, 0), mean + "0.8 the run has 1");
  EXPECT_EQ(average(0.75, 0), "") << "the ends of the third and the fourth epoch";
  EXPECT_EQ(average(0.5, 41), mean + "0.5 the run has 0");
  EXPECT_EQ(average(0.5, 10), "");
}

TEST(OptimizerParameters, AGroupThatChangesNothingIsWarnedOf) {
  const auto groups = [](std::vector<Member> first, std::vector<Member> second = {}) {
    Array list;
    for (std::vector<Member>* group : {&first, &second}) {
      if (!group->empty()) list.push_back(Value(Table(*group)));
    }
    return warning("groups", Value(list));
  };
  const Member fc2("match", {}, Value(std::string("fc2.*"))), vectors("vectors", {}, Value(true));
  const Member twice("rate_factor", {}, Value(2.0));
  EXPECT_MESSAGE(groups({fc2}));
  EXPECT_EQ(groups({fc2}, {vectors, twice}), "") << "it keeps its vectors from the second one";
  EXPECT_MESSAGE(groups({fc2, {"decay_factor", {}, Value(0.0)}}));
  EXPECT_MESSAGE(groups({fc2, {"until_epoch", {}, Value(4.0)}}));
  EXPECT_EQ(groups({fc2, {"until_epoch", {}, Value(3.0)}}), "");
  const Member all("match", {}, Value(std::string("*"))), none("rate_factor", {}, Value(0.0));
  EXPECT_MESSAGE(groups({all, none}));
}

}  // namespace
}  // namespace millrace
