// Long because each fault of resuming, stopping and evaluating that was mended has a row.
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

// ---- The table ----

struct Injected {
  std::string at;  // where this stands in the trace
  std::function<void(World&)> what;
};
Injected ask(std::string at, RequestKind kind, double factor = 1) {
  return {std::move(at), [=](World& world) { world.ask(kind, factor); }};
}
Injected tell(std::string at, const RunEvent& event) {
  return {std::move(at), [=](World& world) { world.tell(event); }};
}
Injected signal(std::string at) { return tell(std::move(at), event::Signal{15}); }

struct Row {
  std::string name;
  std::function<void(RunRules&)> rules;
  std::vector<Injected> injected;
  std::vector<double> losses;  // after 1, 2, ... steps; empty: they fall
  std::string expected;
  // Of the run that resumes from the newest checkpoint; "": none does.
  std::string resumed = {};
  std::function<void(RunRules&, SavedState&)> changed = {};
};

// Two epochs of two steps, with a checkpoint after each. The loss of every graph falls from pass to pass.
RunRules small_run() {
  RunRules rules;
  rules.graph = "train";
  rules.end = 4;
  rules.steps_per_epoch = 2;
  rules.batch_size = 8;
  rules.has_folder = rules.writes_checkpoints = true;
  rules.checkpoint = {.epochs = 1};
  return rules;
}
const Every kEpoch{.epochs = 1}, kEnd{};

World::Metric losses_of(const Row& row) {
  return [losses = row.losses](const std::string&, std::uint64_t done, std::uint64_t) {
    return losses.empty() ? 1.0 / static_cast<double>(done) : losses.at(done - 1);
  };
}

std::string trace_of(World& world, const std::vector<Injected>& injected) {
  std::string text;
  std::set<std::size_t> done;
  world.traced = [&](const std::string& token) {
    text += (text.empty() ? "" : ", ") + token;
    for (std::size_t i = 0; i < injected.size(); ++i) {
      if (text.ends_with(injected[i].at) && done.insert(i).second) injected[i].what(world);
    }
  };
  for (int i = 0; i < 1000 && world.advance(); ++i) continue;
  return text;
}

void expect(const Row& row) {
  RunRules rules = small_run();
  if (row.rules) row.rules(rules);
  World world(rules, nullptr, losses_of(row));
  EXPECT_EQ(trace_of(world, row.injected), row.expected) << row.name;
  if (row.resumed.empty()) return;
  ASSERT_TRUE(world.disk) << row.name;
  World::Disk disk = *world.disk;
  rules.first = disk.saved.step;
  if (row.changed) row.changed(rules, disk.saved);
  World resumed(rules, &disk, losses_of(row));
  EXPECT_EQ(trace_of(resumed, {}), row.resumed) << row.name << ", resumed";
}

const auto kLong = [](RunRules& rules) { rules.steps_per_epoch = 4; };
const auto kValidates = [](RunRules& rules) { rules.others = {{"validate", kEpoch}}; };
const auto kFinal = [](RunRules& rules) { rules.others = {{"validate", kEpoch}, {"final", kEnd}}; };
const auto kBest = [](RunRules& rules) {
  kFinal(rules);
  rules.best = FigurePlan{"validate", "loss", {}};
  rules.exports_best = true;
};

TEST(Decide, Boundaries) {
  for (const Row& row : std::vector<Row>{
           {"epochs end with their metrics, passes and checkpoints",
            kValidates,
            {},
            {},
            "start, 1, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"another graph is tried before the first step",
            [](RunRules& r) {
              r.others = {{"validate", kEnd, true}};
            },
            {},
            {},
            "try validate, start, 1, 2, epoch, save, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"replicas are compared between epochs too",
            [](RunRules& r) { r.compare_every = 3; },
            {},
            {},
            "start, 1, 2, epoch, save, 3, settle, compare, 4, epoch, save, stop, finish, end"},
           {"half epochs",
            [](RunRules& r) {
              r.others = {{"validate", {.epochs = 0.5}}};
            },
            {},
            {},
            "start, 1, settle, pass validate, measured, 2, epoch, pass validate, measured, save, 3, settle, pass validate, "
            "measured, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"max_steps ends a run as its last step does",
            [](RunRules& r) {
              kFinal(r);
              r.end = 3, r.is_shortened = true;
            },
            {},
            {},
            "start, 1, 2, epoch, pass validate, measured, save, 3, epoch, pass validate, measured, pass final, measured, save, "
            "stop, finish, did stop, end"},
           {"nothing is left to do", [](RunRules& r) { r.first = 4; }, {}, {}, "start, finish, end"},
           {"a graph that does not train is one pass",
            [](RunRules& r) { r.trains = false; },
            {},
            {},
            "pass train, measured, finish, end"},
           {"which any stop breaks off",
            [](RunRules& r) { r.trains = false; },
            {ask("pass train", RequestKind::stop)},
            {},
            "pass train, break off train, finish, did stop, end"},
           {"after failed attempts a checkpoint is left out, but for the last",
            nullptr,
            {{"start", [](World& world) { world.leaves_out = true; }}},
            {},
            "start, 1, 2, epoch, 3, 4, epoch, save, stop, finish, end"},
           {"an observer that has caught up opens the gate",
            kLong,
            {tell("start, 1", event::Behind{"page"}), tell("2", event::CaughtUp{})},
            {},
            "start, 1, 2, open, 3, 4, epoch, save, stop, finish, end"},
       })
    expect(row);
}

TEST(Decide, Requests) {
  for (const Row& row : std::vector<Row>{
           {"weights are saved after the step under way",
            kLong,
            {ask("start, 1", RequestKind::save)},
            {},
            "start, 1, 2, settle, weights, 3, 4, epoch, save, stop, finish, end"},
           {"a validation comes after the step under way",
            [](RunRules& r) { kFinal(r), kLong(r); },
            {ask("start, 1", RequestKind::validate)},
            {},
            "start, 1, 2, settle, pass validate, measured, pass final, measured, did validate, 3, 4, epoch, pass validate, "
            "measured, pass final, measured, save, stop, finish, end"},
           {"no other graph can validate",
            kLong,
            {ask("start, 1", RequestKind::validate)},
            {},
            "start, 1, 2, settle, refuse validate, 3, 4, epoch, save, stop, finish, end"},
           {"a run that stops validates no more",
            [](RunRules& r) { kValidates(r), kLong(r); },
            {ask("start, 1", RequestKind::validate), signal("settle")},
            {},
            "start, 1, 2, settle, ask signal, refuse validate, save, stop, finish, did signal, end",
            "start, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"a validation that has run is answered, whatever stops the run afterwards",
            [](RunRules& r) { kValidates(r), kLong(r); },
            {ask("start, 1", RequestKind::validate), ask("settle, pass validate", RequestKind::stop)},
            {},
            "start, 1, 2, settle, pass validate, measured, did validate, save, stop, finish, settle, save, did stop, end"},
           {"a rate needs no boundary",
            kLong,
            {ask("start, 1", RequestKind::rate_factor, 0.5)},
            {},
            "start, 1, 2, rate 0.5, did rate_factor, 3, 4, epoch, save, stop, finish, end",
            "rate 0.5, start, finish, end"},
           {"a checkpoint by time",
            kLong,
            {tell("start, 1", event::CheckpointDue{"[checkpoint]"})},
            {},
            "start, 1, ask checkpoint, 2, settle, save, did checkpoint, 3, 4, epoch, save, stop, finish, end"},
           {"a run without checkpoints refuses them",
            [](RunRules& r) { kLong(r), r.writes_checkpoints = false; },
            {ask("start, 1", RequestKind::checkpoint)},
            {},
            "start, 1, 2, settle, refuse checkpoint, 3, 4, epoch, stop, finish, end"},
           {"what comes too late is refused",
            nullptr,
            {ask("save, stop", RequestKind::save)},
            {},
            "start, 1, 2, epoch, save, 3, 4, epoch, save, stop, finish, refuse save, end"},
           {"a checkpoint of the last step serves who asks late",
            nullptr,
            {ask("save, stop", RequestKind::checkpoint)},
            {},
            "start, 1, 2, epoch, save, 3, 4, epoch, save, stop, finish, did checkpoint, end"},
           {"a save that comes before a stop is honoured",
            kLong,
            {ask("start, 1", RequestKind::save), ask("start, 1", RequestKind::stop)},
            {},
            "start, 1, stop, settle, weights, save, finish, settle, save, did stop, end"},
       })
    expect(row);
}

TEST(Decide, Signals) {
  for (const Row& row : std::vector<Row>{
           {"within an epoch: a checkpoint, and the rest when it is resumed",
            kFinal,
            {signal("start, 1")},
            {},
            "start, 1, ask signal, stop, finish, save, did signal, end",
            "start, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, pass final, measured, save, "
            "stop, finish, end"},
           {"at a boundary: what was due is owed",
            kValidates,
            {signal("epoch")},
            {},
            "start, 1, 2, epoch, ask signal, save, stop, finish, did signal, end",
            "pass validate, measured, save, start, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"in a pass: half of it counts nothing",
            kValidates,
            {signal("pass validate")},
            {},
            "start, 1, 2, epoch, pass validate, ask signal, break off validate, save, stop, finish, did signal, end",
            "pass validate, measured, save, start, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"together with a rate: the last checkpoint has it",
            kValidates,
            {ask("pass validate", RequestKind::rate_factor, 0.5), signal("pass validate")},
            {},
            "start, 1, 2, epoch, pass validate, ask signal, break off validate, save, stop, rate 0.5, did rate_factor, finish, "
            "save, did signal, end",
            "rate 0.5, pass validate, measured, save, start, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"in a trial: nothing was done",
            [](RunRules& r) {
              r.others = {{"validate", kEnd, true}, {"final", kEnd, true}};
            },
            {signal("try validate")},
            {},
            "try validate, ask signal, break off validate, did signal, end"},
           {"before a first step of which nothing is owed",
            [](RunRules& r) {
              r.others = {{"validate", kEpoch, true}};
              r.first = 2;
            },
            {signal("try validate")},
            {},
            "try validate, ask signal, break off validate, did signal, end"},
           {"while it saves",
            kValidates,
            {signal("save")},
            {},
            "start, 1, 2, epoch, pass validate, measured, save, ask signal, stop, finish, did signal, end",
            "start, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"in the evaluation at the last step",
            kFinal,
            {signal("4, epoch, pass validate")},
            {},
            "start, 1, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, ask signal, break off validate, "
            "save, stop, finish, did signal, end",
            "pass validate, measured, pass final, measured, save, start, finish, end"},
           {"beside another request to stop it is the one that counts",
            kFinal,
            {ask("start, 1", RequestKind::stop), signal("start, 1")},
            {},
            "start, 1, stop, ask signal, did stop, finish, save, did signal, end",
            "start, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, pass final, measured, save, "
            "stop, finish, end"},
           {"in the evaluation of a run that is over",
            kFinal,
            {ask("start, 1", RequestKind::stop), signal("pass final")},
            {},
            "start, 1, stop, finish, settle, pass final, ask signal, break off final, did stop, save, did signal, end",
            "pass final, measured, start, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, pass "
            "final, measured, save, stop, finish, end"},
           {"after the evaluation of a run that is over",
            kFinal,
            {ask("start, 1", RequestKind::stop), signal("measured")},
            {},
            "start, 1, stop, finish, settle, pass final, measured, ask signal, did stop, save, did signal, end",
            "start, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, pass final, measured, save, "
            "stop, finish, end"},
           {"in a pass with the best weights at the end",
            [](RunRules& r) {
              kBest(r);
              r.others[0].writes_predictions = true;
            },
            {signal("put 2, pass validate")},
            {1, 2, 3, 4},
            "start, 1, 2, epoch, pass validate, measured, save best, 3, 4, epoch, pass validate, measured, put 2, pass validate, "
            "ask signal, break off validate, save, stop, finish, did signal, end",
            "put 2, pass validate, measured best 2, pass final, measured best 2, save, start, finish, end"},
       })
    expect(row);
}

TEST(Decide, Stops) {
  for (const Row& row : std::vector<Row>{
           {"of an observer: the run is evaluated as after its last step",
            kFinal,
            {ask("start, 1", RequestKind::stop)},
            {},
            "start, 1, stop, finish, settle, pass final, measured, save, did stop, end",
            "start, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, pass final, measured, save, "
            "stop, finish, end"},
           {"of an observer: max_time does not skip the rest of the evaluation",
            [](RunRules& r) {
              r.others = {{"final", kEnd}, {"page", kEnd}};
              r.stop.max_seconds = 10;
            },
            {ask("start, 1", RequestKind::stop), tell("pass final", event::Ticked{11})},
            {},
            "start, 1, stop, finish, settle, pass final, measured, pass page, measured, save, did stop, end"},
           {"exactly at a boundary: what is due there has to run",
            kValidates,
            {ask("epoch", RequestKind::stop)},
            {},
            "start, 1, 2, epoch, save, stop, finish, settle, pass validate, measured, save, did stop, end",
            "start, 3, 4, epoch, pass validate, measured, save, stop, finish, end"},
           {"in a pass: it is finished",
            kFinal,
            {ask("pass validate", RequestKind::stop)},
            {},
            "start, 1, 2, epoch, pass validate, measured, save, stop, finish, settle, pass final, measured, save, did stop, end",
            "start, 3, 4, epoch, pass validate, measured, pass final, measured, save, stop, finish, end"},
           {"of two: one evaluation, and both are completed",
            kFinal,
            {ask("start, 1", RequestKind::stop), ask("start, 1", RequestKind::stop)},
            {},
            "start, 1, stop, did stop, finish, settle, pass final, measured, save, did stop, end"},
           {"another one ends the evaluation",
            [](RunRules&r) {
              r.others = {{"a", kEnd}, {"b", kEnd}};
            },
            {ask("start, 1", RequestKind::stop), ask("pass a", RequestKind::stop)},
            {},
            "start, 1, stop, finish, settle, pass a, measured, did stop, save, did stop, end",
            "pass b, measured, start, 2, epoch, save, 3, 4, epoch, pass a, measured, pass b, measured, save, stop, finish, end"},
           {"before the first step of a resumed run: it is evaluated",
            [](RunRules&r) {
              kFinal(r);
              r.others[0].is_tried = true;
              r.first = 1;
            },
            {ask("try validate", RequestKind::stop)},
            {},
            "try validate, pass final, measured, save, did stop, end"},
           {"before any step: there is nothing to evaluate",
            kFinal,
            {ask("start", RequestKind::stop)},
            {},
            "start, stop, finish, save, did stop, end"},
           {"in the evaluation at the last step",
            kFinal,
            {ask("4, epoch, pass validate", RequestKind::stop)},
            {},
            "start, 1, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, save, stop, finish, "
            "settle, pass final, measured, save, did stop, end"},
           {"by max_time",
            [](RunRules&r) {
              kFinal(r);
              r.stop.max_seconds = 10;
            },
            {tell("start, 1", event::Ticked{10})},
            {},
            "start, 1, ask stop, stop, finish, settle, pass final, measured, save, did stop, end"},
           {"by patience, once",
            [](RunRules&r) {
              kFinal(r);
              r.end = 8;
              r.stop.figure = FigurePlan{"validate", "loss", {}};
              r.stop.patience = 1;
            },
            {},
            {0, 1, 0, 2, 0, 3, 0, 4},
            "start, 1, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, ask stop, save, stop, "
            "finish, settle, pass final, measured, save, did stop, end",
            "ask stop, did stop, end"},
           {"by patience, which a resumed run has more of",
            [](RunRules&r) {
              kFinal(r);
              r.end = 8;
              r.stop.figure = FigurePlan{"validate", "loss", {}};
              r.stop.patience = 1;
            },
            {},
            {0, 1, 0, 2, 0, 3, 0, 4},
            "start, 1, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, ask stop, save, stop, "
            "finish, settle, pass final, measured, save, did stop, end",
            "start, 5, 6, epoch, pass validate, measured, save, 7, 8, epoch, pass validate, measured, pass final, measured, "
            "save, stop, finish, end",
            [](RunRules&r, SavedState&) { r.stop.patience = 3; }},
           {"a run at its end is not stopped",
            [](RunRules&r) {
              kFinal(r);
              r.stop.figure = FigurePlan{"validate", "loss", {}};
              r.stop.patience = 1;
            },
            {},
            {0, 1, 0, 2},
            "start, 1, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, pass final, measured, "
            "save, stop, finish, end"},
       })
    expect(row);
}

TEST(Decide, Best) {
  for (const Row& row : std::vector<Row>{
           {"weights of the last step",
            kBest,
            {},
            {},
            "start, 1, 2, epoch, pass validate, measured, save best, 3, 4, epoch, pass validate, measured, put nothing, pass "
            "final, measured, save best, stop, finish, end"},
           {"weights of an earlier step are evaluated at the end",
            kBest,
            {},
            {0, 1, 0, 2},
            "start, 1, 2, epoch, pass validate, measured, save best, 3, 4, epoch, pass validate, measured, put 2, pass final, "
            "measured best 2, save, stop, finish, end"},
           {"files about predictions are of the best weights",
            [](RunRules&r) {
              kBest(r);
              r.others[0].writes_predictions = true;
            },
            {},
            {0, 1, 0, 2},
            "start, 1, 2, epoch, pass validate, measured, save best, 3, 4, epoch, pass validate, measured, put 2, pass validate, "
            "measured best 2, pass final, measured best 2, save, stop, finish, end"},
           {"what an evaluation at a stop finds",
            [](RunRules&r) {
              kBest(r);
              r.best->graph = "final";
            },
            {ask("epoch", RequestKind::stop)},
            {},
            "start, 1, 2, epoch, save, stop, finish, settle, pass validate, measured, pass final, measured, save best, did stop, "
            "end",
            "start, 3, 4, epoch, pass validate, measured, pass final, measured, save best, stop, finish, end"},
           {"a graph that is requested before the end does not wait for it",
            kBest,
            {ask("start, 1", RequestKind::validate)},
            {0, 1, 2, 3},
            "start, 1, 2, epoch, pass validate, measured, pass final, measured, did validate, save best, 3, 4, epoch, pass "
            "validate, measured, put 2, pass final, measured best 2, save, stop, finish, end"},
           {"of a run without checkpoints: from the replicas",
            [](RunRules&r) {
              kBest(r);
              r.writes_checkpoints = false;
            },
            {},
            {0, 1, 0, 2},
            "start, 1, 2, epoch, pass validate, measured, best, 3, 4, epoch, pass validate, measured, put 2, pass final, "
            "measured best 2, stop, finish, end"},
           {"rank 1 does not know of better weights",
            [](RunRules&r) {
              kBest(r);
              r.is_alone = r.is_first = false;
            },
            {},
            {0, 1, 0, 2},
            "start, 1, 2, epoch, pass validate, measured, save best, 3, 4, epoch, pass validate, measured, put nothing, pass "
            "final, measured, save, stop, finish, end"},
           {"steps of other batches are not steps of today",
            kBest,
            {signal("measured, save best, 3")},
            {},
            "start, 1, 2, epoch, pass validate, measured, save best, 3, ask signal, stop, finish, save, did signal, end",
            "start, 4, epoch, pass validate, measured, put 4, pass final, measured best 4, save, stop, finish, end",
            [](RunRules&r, SavedState&s) {
              s.step = 6, s.epoch = 1, s.step_of_epoch = 2;
              s.batch_size = 4, s.watched.begin()->second.best_step = 4;
              s.watched.begin()->second.best = 0;
              r.first = 3;
            }},
           {"the best step of a checkpoint with other batches is that of the checkpoint",
            kBest,
            {signal("epoch, pass validate, measured")},
            {0, 1, 0, 2},
            "start, 1, 2, epoch, pass validate, measured, ask signal, save best, stop, finish, did signal, end",
            "epoch, pass validate, measured, put nothing, pass final, measured, save, start, finish, end",
            [](RunRules&r, SavedState&s) {
              s.step = 16, s.epoch = 1, s.step_of_epoch = 8;
              s.batch_size = 1, s.watched.begin()->second.best_step = 16;
              s.left.passes = {"final"};
              r.first = r.end = 4;
            }},
       })
    expect(row);
}

TEST(Decide, Failures) {
  for (const Row& row : std::vector<Row>{
           {"in another graph: the weights are rescued",
            kValidates,
            {tell("pass validate", event::Failed{})},
            {},
            "start, 1, 2, epoch, pass validate, rescue, fail"},
           {"of a device or of memory: they are not",
            kValidates,
            {tell("pass validate", event::Failed{true})},
            {},
            "start, 1, 2, epoch, pass validate, fail"},
           {"of one rank of several: others wait for nothing",
            [](RunRules& r) {
              kValidates(r);
              r.is_alone = false;
            },
            {tell("pass validate", event::Failed{})},
            {},
            "start, 1, 2, epoch, pass validate, fail"},
           {"in training: there is the newest checkpoint", kValidates, {tell("start, 1", event::Failed{})}, {}, "start, 1, fail"},
           {"requests that wait are refused",
            kLong,
            {ask("start, 1", RequestKind::validate), tell("start, 1", event::Failed{})},
            {},
            "start, 1, refuse validate, fail"},
           {"in a trial: nothing was trained",
            [](RunRules& r) {
              r.others = {{"validate", kEpoch, true}};
            },
            {tell("try validate", event::Failed{})},
            {},
            "try validate, fail"},
       })
    expect(row);
}

TEST(Decide, Resuming) {
  for (const Row& row : std::vector<Row>{
           {"larger batches leave no step of an epoch: it ends at once",
            kValidates,
            {signal("start, 1")},
            {},
            "start, 1, ask signal, stop, finish, save, did signal, end",
            "epoch, pass validate, measured, save, start, 3, 4, epoch, pass validate, measured, save, stop, finish, end",
            [](RunRules&r, SavedState&s) {
              s.step = 3, s.epoch = 0, s.step_of_epoch = 3, s.batch_size = 4;
              r.first = 2;
            }},
           {"a step of other batches is not that of the checkpoint",
            nullptr,
            {signal("start, 1")},
            {},
            "start, 1, ask signal, stop, finish, save, did signal, end",
            "start, 3, epoch, save, stop, finish, end",
            [](RunRules&r, SavedState&s) {
              s.step = 3, s.epoch = 1, s.step_of_epoch = 1, s.batch_size = 4;
              r.first = 2, r.end = 3;
            }},
           {"a longer run goes on after its last step",
            kFinal,
            {},
            {},
            "start, 1, 2, epoch, pass validate, measured, save, 3, 4, epoch, pass validate, measured, pass final, measured, "
            "save, stop, finish, end",
            "start, 5, 6, epoch, pass validate, measured, pass final, measured, save, stop, finish, end",
            [](RunRules&r, SavedState&) { r.end = 6; }},
       })
    expect(row);
}

TEST(Decide, ALongerRunDoesNotOweThePassesOfAnEarlierEnd) {
  RunRules rules = small_run();
  rules.first = 2;
  World::Disk disk;
  disk.saved.step = 2;
  disk.saved.left.best_passes = true;
  World world(rules, &disk, metric);
  for (int i = 0; i < 100 && !world.is_training(); ++i) world.advance();
  EXPECT_TRUE(world.is_training());
  EXPECT_FALSE(world.state().owes_again);
}

TEST(Decide, RanksThatPatienceHasEndedTakeNoStepWhenTheyAreResumed) {
  RunRules rules = small_run();
  rules.is_alone = false;
  rules.first = 2;
  rules.stop.figure = FigurePlan{"train", "loss", {}};
  rules.stop.patience = 1;
  SavedState saved;
  saved.step = 2;
  saved.watched["stop.figure train.loss"].passes = 1;
  saved.left.run_is_over = true;
  for (const bool is_first : {true, false}) {
    rules.is_first = is_first;
    const Decision decision = decide(rules, begin(rules, &saved), event::Began{});
    EXPECT_EQ(decision.state.phase, RunState::Phase::ended);
    ASSERT_TRUE(decision.state.stop);
    EXPECT_EQ(decision.state.stop->by, kStopRule);
  }
}

TEST(Decide, RequestsThatRanksHaveAgreedOnWaitForTheirStep) {
  RunRules rules = small_run();
  rules.is_alone = false;
  rules.others = {{"validate", kEnd}};
  RunState state = begin(rules, nullptr);
  Actions actions;
  const auto feed = [&](const RunEvent& event) {
    Decision decision = decide(rules, std::move(state), event);
    state = std::move(decision.state);
    actions = std::move(decision.actions);
  };
  const auto horizon = [&]() -> std::uint64_t {
    for (const Action& action : actions) {
      if (const auto* set = std::get_if<action::SetHorizon>(&action)) return set->step;
    }
    return 0;
  };
  feed(event::Began{});
  EXPECT_EQ(horizon(), 2U);
  feed(event::Requested{{.kind = RequestKind::validate, .by = "page", .text = {}}, 3});  // agreed with a step that was read ahead
  feed(event::Requested{{.by = "signal 15", .signal = 15, .text = {}}, 3});
  EXPECT_TRUE(actions.empty());
  EXPECT_FALSE(state.stop);
  feed(event::Reached{2});
  feed(event::Settled{});
  feed(event::Verdict{});
  feed(event::CheckpointMade{});
  EXPECT_EQ(horizon(), 3U);
  feed(event::Reached{3});
  EXPECT_TRUE(state.stop);
  EXPECT_EQ(state.phase, RunState::Phase::settling) << "the validation is answered first";
}

TEST(Decide, AllRanksFollowRankZero) {
  RunRules rules = small_run();
  rules.is_alone = rules.is_first = false;
  rules.best = FigurePlan{"train", "loss", {}};
  rules.plateau = {.figure = rules.best, .patience = 1, .factor = 0.5};
  RunState state = begin(rules, nullptr);
  Actions actions;
  for (const RunEvent& event : std::vector<RunEvent>{event::Began{}, event::Reached{2}, event::Settled{},
                                                     event::Verdict{.is_best = true, .is_flat = true}}) {
    Decision decision = decide(rules, std::move(state), event);
    state = std::move(decision.state);
    actions = std::move(decision.actions);
  }
  ASSERT_EQ(actions.size(), 2U) << "rank 0 alone tells observers of the rate";
  EXPECT_EQ(std::get<action::SetRate>(actions[0]).factor, 0.5);
  EXPECT_TRUE(std::get<action::Checkpoint>(actions[1]).is_best);
}

TEST(Decide, ARunGoesBackOnlyToACheckpoint) {
  RunRules rules = small_run();
  EXPECT_FALSE(rolls_back(rules, true, true)) << "[run] on_nan does not say so";
  rules.rolls_back = true;
  EXPECT_TRUE(rolls_back(rules, true, true));
  EXPECT_FALSE(rolls_back(rules, true, false));
  EXPECT_FALSE(rolls_back(rules, false, true)) << "another error";
}

// ---- Metrics ----

std::vector<Figure> metrics(double loss, double accuracy = 0.5) {
  return {{"loss", loss, false, false}, {"accuracy", accuracy, true, true}};
}

struct Watch : MetricWatch {
  explicit Watch(std::string name, Threshold least = {}) : plan{"validate", std::move(name), {}}, threshold(least) {}
  bool look(const std::string& graph, const std::vector<Figure>& all, std::uint64_t step) {
    return observe(plan, threshold, graph, all, step);
  }
  std::string text() const { return MetricWatch::text(plan, threshold); }
  FigurePlan plan;
  Threshold threshold;
};

TEST(MetricWatch, BetterIsWhatTheMetricSays) {
  Watch accuracy("accuracy"), loss("loss");
  EXPECT_TRUE(accuracy.look("validate", metrics(1, 0.5), 10));
  EXPECT_TRUE(loss.look("validate", metrics(1, 0.5), 10));
  EXPECT_TRUE(accuracy.look("validate", metrics(2, 0.75), 20));
  EXPECT_FALSE(loss.look("validate", metrics(2, 0.75), 20));
  EXPECT_FALSE(accuracy.look("validate", metrics(0.5, 0.75), 30)) << "as good is not better";
  EXPECT_TRUE(loss.look("validate", metrics(0.5, 0.75), 30));
  EXPECT_EQ(accuracy.passes, 1U);
  EXPECT_EQ(loss.passes, 0U);
}

TEST(MetricWatch, CountsPassesOfItsGraphAlone) {
  Watch watch("loss");
  watch.look("validate", metrics(1), 10);
  EXPECT_FALSE(watch.look("train", metrics(0), 15));
  EXPECT_FALSE(watch.look("validate", {}, 20)) << "a graph that reported nothing";
  EXPECT_EQ(watch.passes, 0U);
  EXPECT_FALSE(watch.look("validate", metrics(3), 30));
  EXPECT_EQ(watch.text(), "validate.loss has not improved for 1 pass; best 1 at step 10");
  EXPECT_FALSE(watch.look("validate", metrics(2), 40));
  EXPECT_EQ(watch.text(), "validate.loss has not improved for 2 passes; best 1 at step 10");
}

TEST(MetricWatch, NaNIsNeverBetter) {
  Watch watch("loss");
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(watch.look("validate", metrics(nan), 10));
  EXPECT_EQ(watch.text(), "validate.loss has not improved for 1 pass");
  EXPECT_TRUE(watch.look("validate", metrics(9), 20));
  EXPECT_FALSE(watch.look("validate", metrics(nan), 30));
  EXPECT_TRUE(watch.look("validate", metrics(8), 40));
  EXPECT_FALSE(watch.look("validate", metrics(-infinity), 50));
  Watch other("loss");
  EXPECT_FALSE(other.look("validate", metrics(infinity), 10));
  EXPECT_EQ(other.text(), "validate.loss has not improved for 1 pass");
}

TEST(MetricWatch, BetterByLessThanTheThresholdIsNotBetter) {
  Watch share("loss", {0.125, true}), amount("accuracy", {0.125, false});
  EXPECT_TRUE(share.look("validate", metrics(-4, 0.25), 10)) << "the first one";
  EXPECT_TRUE(amount.look("validate", metrics(-4, 0.25), 10));
  EXPECT_FALSE(share.look("validate", metrics(-4.5, 0.375), 20)) << "an eighth of 4, and no more";
  EXPECT_FALSE(amount.look("validate", metrics(-4.5, 0.375), 20));
  EXPECT_EQ(share.text(), "validate.loss has not improved by 12.5 % for 1 pass; best -4 at step 10");
  EXPECT_EQ(amount.text(), "validate.accuracy has not improved by 0.125 for 1 pass; best 0.25 at step 10");
  EXPECT_TRUE(share.look("validate", metrics(-4.75, 0.5), 30));
  EXPECT_TRUE(amount.look("validate", metrics(-4.75, 0.5), 30));
}

using Rates = std::vector<double>;

// The rates after each of these losses. `resumes`: each pass is that of a run that resumes from a checkpoint.
Rates rates(const PlateauPlan& plan, const std::vector<double>& losses, bool resumes = false) {
  RunRules rules = small_run();
  rules.steps_per_epoch = 1;
  rules.end = losses.size() + 1;  // the last step lowers no rate
  rules.others = {{"validate", kEpoch}};
  rules.plateau = plan;
  rules.plateau.figure = FigurePlan{"validate", "loss", {}};
  const auto loss = [&](const std::string&, std::uint64_t done, std::uint64_t) {
    return done > losses.size() ? 0 : losses[done - 1];
  };
  Rates rates;
  std::optional<World::Disk> disk;
  while (rates.size() < losses.size()) {
    World world(rules, disk ? &*disk : nullptr, loss);
    bool was_saved = false;
    world.traced = [&](const std::string& token) {
      if (token != "save" || rates.size() == losses.size()) return;
      rates.push_back(world.state().rate);
      was_saved = true;
    };
    while (!(was_saved && resumes) && world.advance()) continue;
    disk = world.disk;
    disk->saved = read_saved_state(to_json(disk->saved));
    rules.first = disk->saved.step;
  }
  return rates;
}

// torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0) made these rates of these losses.
TEST(Plateau, LowersTheRateFromTheNextStepOn) {
  const PlateauPlan plan{.figure = {}, .patience = 2, .factor = 0.5};
  EXPECT_EQ(rates(plan, {1, 0.9, 0.95, 0.9, 0.9, 0.9, 0.8, 0.85, 0.8}), (Rates{1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125}));
}

// torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0.1) made these rates of these losses, with
// threshold_mode="abs", and with cooldown=2 and min_lr=0.3.
TEST(Plateau, CountsAsPyTorchDoes) {
  const Rates losses = {1, 0.9, 0.85, 0.8, 0.84, 0.79, 0.78, 0.77, 0.76, 0.75, 0.74, 0.5, 0.49};
  PlateauPlan plan{.figure = {}, .patience = 2, .factor = 0.5, .threshold = {0.1, true}};
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125}));
  plan.threshold.is_relative = false;
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.125}));
  plan.threshold.is_relative = true;
  plan.cooldown = 2;
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25}));
  plan.min_factor = 0.3;
  EXPECT_EQ(rates(plan, losses), (Rates{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3}));
}

TEST(Plateau, KeepsItsCooldownWhenTheRunIsResumed) {
  const PlateauPlan plan{.figure = {}, .patience = 2, .factor = 0.5, .min_factor = 0.3, .cooldown = 2};
  const Rates losses(12, 1), expected = {1, 1, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3};
  EXPECT_EQ(rates(plan, losses), expected);
  EXPECT_EQ(rates(plan, losses, true), expected);
}

TEST(Plateau, RaisesNoRateAndTellsOfNoneThatStays) {
  RunRules rules = small_run();
  rules.steps_per_epoch = 1;
  rules.end = 6;
  rules.plateau = {.figure = FigurePlan{"train", "loss", {}}, .patience = 1, .factor = 0.5, .min_factor = 0.5};
  World world(rules, nullptr, [](const std::string&, std::uint64_t, std::uint64_t) { return 1.0; });
  const std::string text = trace_of(world, {ask("3", RequestKind::rate_factor, 0.25)});
  EXPECT_EQ(
      text,
      "start, 1, epoch, save, 2, epoch, rate 0.5, did rate_factor, save, 3, epoch, save, rate 0.25, did rate_factor, 4, epoch, "
      "save, 5, epoch, save, 6, epoch, save, stop, finish, end");
}

// The state of a run that began with step 12, in epochs of 10 steps of 8 samples, and has done 17 steps.
SavedState state_of(std::uint64_t batch_size) {
  SavedState state;
  state.step = 17;
  state.epoch = 1;
  state.step_of_epoch = 7;
  state.first_step = 12;
  state.batch_size = batch_size;
  return state;
}

TEST(FirstStepBefore, IsTheCheckpointsWhereBatchesAreAsLarge) {
  EXPECT_EQ(first_step_before(state_of(8), 8, 10), 12U);
  EXPECT_EQ(first_step_before(state_of(0), 8, 10), 12U) << "older checkpoints do not know";
}

TEST(FirstStepBefore, IsCountedInBatchesOfTodaysSize) {
  EXPECT_EQ(first_step_before(state_of(8), 4, 20), 24U);  // 2 steps of 8 are 4 of 4, in an epoch that begins with step 20
  EXPECT_EQ(first_step_before(state_of(8), 80, 1), 1U);
}

TEST(FirstStepBefore, OfAnEpochThatTheRunHasBegunIsItsFirst) {
  SavedState state = state_of(8);
  state.first_step = 10;
  EXPECT_EQ(first_step_before(state, 4, 20), 0U) << "all of the epoch is the run's";
}

// ---- The model ----

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
  for (std::uint64_t seed = 1; seed <= 200'000; ++seed) {
    Random random(seed);
    const RunRules rules = random_rules(random);
    World world(rules, nullptr, metric);
    std::string text;
    world.traced = [&](const std::string& token) { text += token + ", "; };
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
    for (const auto& [by, count] : world.answers)
      ASSERT_TRUE(count == 1 || !by.starts_with("page")) << by << ", seed " << seed << "\n" << text;
    ASSERT_NO_FATAL_FAILURE(expect_sound(rules, world)) << seed << "\n" << text;
  }
}

}  // namespace
}  // namespace millrace
