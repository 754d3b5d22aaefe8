// A small world for tests of decide(): it executes actions as the Runner does, on one thread, and can be killed.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "run/decide.h"

namespace millrace {

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
  void ask(RequestKind kind, double factor = 1) { ask({.kind = kind, .by = "page", .factor = factor, .text = {}}); }
  void tell(RunEvent event) { inbox_.push_back(std::move(event)); }

  const RunState& state() const { return state_; }
  std::uint64_t done() const { return done_; }
  bool is_training() const { return is_training_; }

  History history;
  std::optional<Disk> disk;       // the newest checkpoint of this process
  std::optional<Best> best_file;  // best.safetensors
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
  void execute(action::Complete& action) { trace("did " + name_of(action.request)); }
  void execute(action::Refuse& action) { trace("refuse " + name_of(action.request)); }
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
  void execute(action::SaveWeights&) { trace("weights"); }
  void execute(action::Checkpoint& action) {
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
