#include "run/decide.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "run/decide_fixture.h"

namespace millrace {
namespace {

using Random = std::mt19937_64;

std::uint64_t below(Random& random, std::uint64_t count) { return random() % count; }

// A run of a few steps.
RunRules random_rules(Random& random) {
  RunRules rules;
  rules.graph = "train";
  rules.steps_per_epoch = 1 + below(random, 4);
  rules.end = 1 + below(random, 9);
  rules.batch_size = 8;
  rules.has_folder = true;
  rules.writes_checkpoints = true;
  if (below(random, 3) == 0) rules.compare_every = 1 + below(random, 4);
  rules.checkpoint = below(random, 2) == 0 ? Every{.epochs = 1} : Every{.steps = 1 + below(random, 4)};
  static constexpr const char* kNames[] = {"validate", "final", "page"};
  for (std::uint64_t g = below(random, 4); g > 0; --g) {
    RunRules::Other& other = rules.others.emplace_back();
    other.graph = kNames[rules.others.size() - 1];
    other.is_tried = below(random, 2) == 0;
    other.writes_predictions = below(random, 2) == 0;
    switch (below(random, 4)) {
      case 0: other.when = {.epochs = 1}; break;
      case 1: other.when = {.steps = 1 + below(random, 3)}; break;
      case 2: break;
      default: other.when = {.epochs = 0.5}; break;
    }
  }
  const auto some_metric = [&]() -> FigurePlan {
    const std::uint64_t g = below(random, rules.others.size() + 1);
    return {g == 0 ? rules.graph : rules.others[g - 1].graph, "loss", {}};
  };
  if (below(random, 2) == 0) rules.best = some_metric();
  rules.exports_best = rules.best && below(random, 2) == 0;
  if (below(random, 3) == 0) {
    rules.stop.figure = some_metric();
    rules.stop.patience = 1 + below(random, 3);
  }
  if (below(random, 3) == 0) {
    rules.plateau.figure = some_metric();
    rules.plateau.patience = 1 + below(random, 3);
    rules.plateau.factor = 0.5;
    rules.plateau.cooldown = below(random, 2);
  }
  return rules;
}

double metric(const std::string& graph, std::uint64_t done, std::uint64_t weights) {
  const std::uint64_t value = (weights ^ (graph.size() * 977) ^ done) * 0x9E3779B97F4A7C15U >> 60;
  return value == 0 ? std::nan("") : static_cast<double>(value);
}

void expect_sound(const RunRules& rules, const World& world) {
  const History& history = world.history;
  ASSERT_LE(history.steps.size(), rules.end);
  for (std::size_t i = 0; i < history.steps.size(); ++i) ASSERT_EQ(history.steps[i], i) << "every step once, in order";
  ASSERT_EQ(world.state().done, history.steps.size());
  std::optional<std::pair<double, std::uint64_t>> best;
  for (const auto& each : history.measured) {
    if (std::isfinite(each.first) && (!best || each.first < best->first)) best = each;
  }
  ASSERT_EQ(world.state().has_best(), rules.best && best);
  if (rules.best && best) {
    ASSERT_EQ(*world.state().best.best, best->first);
    ASSERT_EQ(world.state().best.best_step, best->second);
  }
  if (best && rules.exports_best) {
    ASSERT_TRUE(world.best_file);
    ASSERT_EQ(world.best_file->step, best->second);
  }
}

std::string text_of(const History& history) {
  std::string text = fmt::format("{} steps, weights {}\n    ", history.steps.size(), history.weights % 10'000);
  for (const std::string& pass : std::set(history.passes.begin(), history.passes.end())) text += pass + ", ";
  for (const auto& [value, step] : history.measured) text += fmt::format("{} at {}, ", value, step);
  return text;
}

void run_to_its_end(World& world) {
  for (int i = 0; world.advance(); ++i) ASSERT_LT(i, 10'000) << "the run does not end";
}

// The end of a run that nothing disturbs, and that of one that is killed, stopped by signals, and resumed.
TEST(DecideModel, AResumedRunEqualsOneThatWasNeverStopped) {
  for (std::uint64_t seed = 1; seed <= 100'000; ++seed) {
    Random random(seed);
    const RunRules rules = random_rules(random);
    World whole(rules, nullptr, metric);
    ASSERT_NO_FATAL_FAILURE(run_to_its_end(whole)) << seed;
    ASSERT_NO_FATAL_FAILURE(expect_sound(rules, whole)) << seed;
    std::optional<World::Disk> disk;
    std::optional<Best> best_file;
    std::string text;
    bool is_over = false;
    for (int tries = 0; !is_over; ++tries) {
      RunRules resumed = rules;
      resumed.first = disk ? disk->saved.step : 0;
      World world(resumed, disk ? &*disk : nullptr, metric);
      world.best_file = best_file;
      world.traced = [&](const std::string& token) { text += token + ", "; };
      text += "\n  ";
      const bool kills = below(random, 2) == 0;
      std::uint64_t left = tries > 5 ? UINT64_MAX : below(random, 60);
      bool was_killed = false;
      while (world.advance()) {
        if (left-- > 0) continue;
        left = UINT64_MAX;
        was_killed = kills;
        if (kills) break;
        world.tell(event::Signal{15});
      }
      if (world.disk) disk = world.disk;
      if (world.best_file) best_file = world.best_file;
      is_over = !was_killed && !(world.state().stop && world.state().stop->signal != 0);
      if (!was_killed) {
        ASSERT_NO_FATAL_FAILURE(expect_sound(rules, world)) << seed << text;
        if (disk && disk->saved.step != world.done()) {
          ASSERT_EQ(world.done(), resumed.first) << "a run that stops has a checkpoint; seed " << seed << text;
        }
      }
      if (is_over) {
        ASSERT_EQ(text_of(world.history), text_of(whole.history)) << seed << text;
      }
    }
  }
}

TEST(DecideModel, WhateverIsRequestedEveryRunIsSound) {
  for (std::uint64_t seed = 1; seed <= 100'000; ++seed) {
    Random random(seed);
    const RunRules rules = random_rules(random);
    World world(rules, nullptr, metric);
    std::string text;
    world.traced = [&](const std::string& token) { text += token + ", "; };
    std::uint64_t requests = 0, answered = 0;
    try {
      while (world.advance()) {
        if (below(random, 8) != 0) continue;
        switch (below(random, 12)) {
          case 0: world.ask(RequestKind::stop); break;
          case 1: world.tell(event::Signal{15}); break;
          case 2: world.tell(event::CheckpointDue{"a signal"}); break;
          case 3: world.tell(event::Behind{"page"}); break;
          case 4: world.tell(event::CaughtUp{}); break;
          case 5: world.ask(RequestKind::rate_factor, 0.5); break;
          case 6: world.ask(RequestKind::validate); break;
          case 7: world.ask(RequestKind::save); break;
          case 8: world.ask(RequestKind::checkpoint); break;
          default: break;
        }
      }
    } catch (const std::exception& error) {
      FAIL() << seed << ": " << error.what() << "\n" << text;
    }
    (void)requests, (void)answered;
    ASSERT_NO_FATAL_FAILURE(expect_sound(rules, world)) << seed << "\n" << text;
  }
}

}  // namespace
}  // namespace millrace
