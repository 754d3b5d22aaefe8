// A small world for tests of decide(): it executes actions as the Runner does, on one thread, and can be killed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "run/decide.h"

namespace millrace {

// ---- Random runs ----

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t count) { return random() % count; }

// A run of a few steps.
inline RunRules random_rules(Random& random) {
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

inline double metric(const std::string& graph, std::uint64_t done, std::uint64_t weights) {
  const std::uint64_t value = (weights ^ (graph.size() * 977) ^ done) * 0x9E3779B97F4A7C15U >> 60;
  return value == 0 ? std::nan("") : static_cast<double>(value);
}

// ---- One process ----

// What lasts of a run: it goes back to the newest checkpoint when the run is killed.
struct History {
  std::uint64_t weights = 1;                               // depends on all steps and their rates
  std::vector<std::uint64_t> steps;                        // as they were done
  std::vector<std::string> passes;                         // "validate 4", "final 8 best 4"
  std::vector<std::pair<double, std::uint64_t>> measured;  // of the metric of run.best, with its step
  bool operator==(const History&) const = default;
};

class World {
 public:
  using Metric = std::function<double(const std::string& graph, std::uint64_t done, std::uint64_t weights)>;
  struct Disk {
    SavedState saved;
    History history;
  };

  World(const RunRules& rules, const Disk* from, Metric metric)
      : rules_(rules), metric_(std::move(metric)), state_(begin(rules, from != nullptr ? &from->saved : nullptr)) {
    done_ = rules.first;
    if (from != nullptr) history = from->history;
    results_.emplace_back(event::Began{});
  }

  // One event, or a bit of a graph's work. False: the run has ended.
  bool advance() {
    if (state_.phase == RunState::Phase::ended && inbox_.empty()) return false;
    if (state_.phase != RunState::Phase::ready && !inbox_.empty()) return feed(inbox_);
    if (!results_.empty()) return feed(results_);
    work();
    return true;
  }
  // As the Runner does where a request is made in a run of one process.
  void ask(RequestEvent request) {
    if (is_training_ && request.kind != RequestKind::stop) lower_horizon(done_ + 1);
    inbox_.emplace_back(event::Requested{std::move(request), 0});
  }
  void ask(RequestKind kind, double factor = 1) {
    std::string by = fmt::format("page {}", answers.size());
    answers[by] = 0;
    ask({.kind = kind, .by = std::move(by), .factor = factor, .text = {}});
  }
  void tell(RunEvent event) { inbox_.push_back(std::move(event)); }

  const RunState& state() const { return state_; }
  std::uint64_t done() const { return done_; }
  bool is_training() const { return is_training_; }

  History history;
  std::optional<Disk> disk;            // the newest checkpoint of this process
  std::optional<Best> best_file;       // best.safetensors
  bool leaves_out = false;             // the last attempts to write a checkpoint have failed
  std::map<std::string, int> answers;  // to requests, by who has asked
  std::function<void(const std::string& token)> traced;

 private:
  bool feed(std::deque<RunEvent>& events) {
    RunEvent event = std::move(events.front());
    events.pop_front();
    Decision decision = decide(rules_, std::move(state_), std::move(event));
    state_ = std::move(decision.state);
    for (Action& each : decision.actions) std::visit([this](auto& action) { execute(action); }, each);
    return true;
  }

  void trace(const std::string& token) {
    if (traced) traced(token);
  }
  std::string name_of(std::size_t graph) const { return graph == 0 ? rules_.graph : rules_.others[graph - 1].graph; }
  static std::string name_of(const RequestEvent& request) { return request.signal != 0 ? "signal" : to_string(request.kind); }
  void check_reached() {
    if (!is_training_ || was_reached_ || done_ < horizon_) return;
    was_reached_ = true;
    inbox_.emplace_back(event::Reached{done_});
  }
  void lower_horizon(std::uint64_t step) {
    horizon_ = std::max(std::min(horizon_, step), done_);
    check_reached();
  }

  void work() {
    if (other_) return inbox_.emplace_back(event::Drained{*std::exchange(other_, std::nullopt), done_}), void();
    if (!is_training_) return fail_with("nothing is under way");
    if (was_stopped_ || done_ == rules_.end) {
      is_training_ = false;
      inbox_.emplace_back(event::Drained{0, done_});
      return;
    }
    if (done_ >= horizon_) return fail_with("the gate stays closed");
    history.weights = (history.weights * 6364136223846793005U + done_) ^ static_cast<std::uint64_t>(rate_ * 4096);
    history.steps.push_back(done_++);
    trace(std::to_string(done_));
    check_reached();
  }
  void fail_with(const std::string& what) {
    trace(what);
    throw std::runtime_error(what);
  }

  void execute(action::TryGraph& action) {
    trace("try " + name_of(action.graph));
    other_ = action.graph;
  }
  void execute(action::EndTry&) { results_.emplace_back(event::Tried{}); }
  void execute(action::StartTraining&) {
    trace("start");
    is_training_ = true;
    check_reached();
  }
  void execute(action::SetHorizon& action) {
    horizon_ = action.step;
    for (const RunEvent& each : inbox_) {
      const auto* requested = std::get_if<event::Requested>(&each);
      if (requested != nullptr && requested->request.kind != RequestKind::stop) horizon_ = std::min(horizon_, done_ + 1);
    }
    was_reached_ = false;
    check_reached();
  }
  void execute(action::GoOn&) {}
  void execute(action::StopGraph& action) {
    if (action.graph == 0 && rules_.trains) {
      trace("stop");
      was_stopped_ = true;
    } else {
      trace("break off " + name_of(action.graph));
    }
  }
  void execute(action::FinishTraining&) { trace("finish"); }
  void execute(action::Settle& action) {
    trace(action.ends_epoch ? "epoch" : "settle");
    event::Settled settled;
    if (action.ends_epoch) settled.metrics = metrics_of(rules_.graph, history.weights);
    results_.emplace_back(std::move(settled));
  }
  void execute(action::CompareWeights&) { trace("compare"); }
  void execute(action::Flush&) {}
  void execute(action::RunPass& action) {
    trace("pass " + name_of(action.graph));
    other_ = action.graph;
  }
  void execute(action::MeasurePass& action) {
    const std::string of_best = action.best_step != 0 ? fmt::format(" best {}", action.best_step) : "";
    history.passes.push_back(fmt::format("{} {}{}", name_of(action.graph), done_, of_best));
    trace("measured" + of_best);
    results_.emplace_back(event::PassEnded{metrics_of(name_of(action.graph), history.weights)});
  }
  std::vector<Figure> metrics_of(const std::string& graph, std::uint64_t weights) {
    const double value = metric_(graph, done_, weights);
    if (rules_.best && rules_.best->graph == graph && state_.best_in_place == 0) history.measured.emplace_back(value, done_);
    return {{"loss", value, false, false}};
  }
  void execute(action::Ask& action) {
    trace("ask " + name_of(action.request));
    ask(std::move(action.request));
    results_.emplace_back(event::Asked{});
  }
  void execute(action::Complete& action) {
    ++answers[action.request.by];
    trace("did " + name_of(action.request));
  }
  void execute(action::Refuse& action) {
    ++answers[action.request.by];
    trace("refuse " + name_of(action.request));
  }
  void execute(action::SetRate& action) {
    trace(fmt::format("rate {:g}", action.factor));
    rate_ = action.factor;
  }
  void execute(action::Agree& action) { results_.emplace_back(event::Verdict{action.is_best, action.is_flat}); }
  void execute(action::SaveBest&) {
    trace("best");
    best_file = best_so_far(rules_, state_);
  }
  void execute(action::RetryBest&) {}
  void execute(action::PutBest& action) {
    trace(action.best ? fmt::format("put {}", action.best->step) : "put nothing");
    results_.emplace_back(event::BestInPlace{action.best ? action.best->step : 0});
  }
  void execute(action::SaveWeights& action) {
    ++answers[action.request.by];
    trace("weights");
  }
  void execute(action::Checkpoint& action) {
    if (leaves_out && action.may_be_left_out) {
      results_.emplace_back(event::CheckpointMade{.was_left_out = true});
      return;
    }
    trace(action.is_best ? "save best" : "save");
    disk.emplace();
    save(rules_, state_, disk->saved);
    disk->history = history;
    if (action.is_best && rules_.exports_best) best_file = best_so_far(rules_, state_);
    results_.emplace_back(event::CheckpointMade{});
  }
  void execute(action::OpenGate&) { trace("open"); }
  void execute(action::RescueWeights&) { trace("rescue"); }
  void execute(action::Fail&) { trace("fail"); }
  void execute(action::End&) { trace("end"); }

  const RunRules& rules_;
  Metric metric_;
  RunState state_;
  std::deque<RunEvent> inbox_, results_;
  std::uint64_t done_ = 0, horizon_ = 0;
  bool is_training_ = false, was_stopped_ = false, was_reached_ = true;
  std::optional<std::size_t> other_;  // the graph that runs
  double rate_ = 1;
};

}  // namespace millrace
