#include "run/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

bool is_better(const MetricWatch& watch, double value, bool higher_is_better, const Threshold& threshold) {
  if (!watch.best || !std::isfinite(value)) return std::isfinite(value);
  const double least = threshold.least * (threshold.is_relative ? std::abs(*watch.best) : 1);
  return higher_is_better ? value > *watch.best + least : value < *watch.best - least;
}

bool is_end(const Every& every) { return every.epochs <= 0 && every.steps == 0 && !every.never; }

bool contains(const std::vector<std::size_t>& graphs, std::size_t graph) {
  return std::ranges::find(graphs, graph) != graphs.end();
}

// As checkpoints name them.
std::string key_of(const char* rule, const std::optional<FigurePlan>& plan) { return fmt::format("{} {}", rule, plan->text()); }

constexpr const char *kStopKey = "stop.figure", *kPlateauKey = "plateau.figure", *kOldBestKey = "checkpoint.best";

class Decider {
  using Phase = RunState::Phase;
  using Part = RunState::Part;

 public:
  Decider(const RunRules& rules, RunState state) : rules_(rules), s_(std::move(state)) {}
  Decision decision() { return {std::move(s_), std::move(actions_)}; }

  void on(const event::Began&);
  void on(const event::Ticked&);
  void on(const event::Signal&);
  void on(const event::CheckpointDue&);
  void on(event::Behind& event) { s_.held_by = std::move(event.observer); }
  void on(const event::CaughtUp&);
  void on(event::Requested&);
  void on(const event::Reached&);
  void on(const event::Drained&);
  void on(const event::Tried&) { try_next(); }
  void on(const event::Asked&);
  void on(const event::Settled&);
  void on(const event::PassEnded&);
  void on(const event::Verdict&);
  void on(const event::BestInPlace&);
  void on(const event::CheckpointMade&);
  void on(const event::Failed&);

 private:
  template <class A>
  void act(A action) {
    actions_.emplace_back(std::move(action));
  }
  std::uint64_t done() const { return s_.done; }
  bool has_ended() const { return s_.phase == Phase::ended; }
  bool decides() const { return rules_.is_alone || rules_.is_first; }
  bool is_impatient() const { return rules_.stop.figure && s_.improving.passes >= rules_.stop.patience; }
  bool is_flat() const { return rules_.plateau.figure && s_.plateau.passes >= rules_.plateau.patience; }
  bool goes_on() const { return s_.part != Part::close && done() < rules_.end; }
  bool waits_for_best(std::size_t graph) const;
  bool is_in_force(RequestKind kind) const;
  std::optional<RequestEvent> take(RequestKind kind);
  void take_stops();
  void set_rates();
  void set_horizon();
  bool is_at_boundary() const;
  void observe(const std::string& graph, const std::vector<Figure>& metrics);

  bool ask_to_stop(std::string why);
  void ask_if_impatient(Phase while_asking);
  void try_next();
  void begin_owed();
  void start_or_end();
  void begin_boundary();
  void end_boundary();
  void after_drained();
  void begin_close();
  void close_passes();
  void begin_passes(const std::vector<std::size_t>& graphs);
  void next_pass();
  void passes_are_over();
  void answer_validations();
  void agree();
  void lower_rate();
  void begin_best_passes();
  void save_all();
  void checkpoint(bool is_best);
  void after_checkpoint();
  void last();
  void end();
  void answer(RequestEvent request);

  const RunRules& rules_;
  RunState s_;
  Actions actions_;
};

// ---- Requests ----

bool Decider::is_in_force(RequestKind kind) const {
  return std::ranges::any_of(s_.waiting, [&](const RunState::Waiting& w) { return w.request.kind == kind && w.from <= done(); });
}

// The oldest one that is in force.
std::optional<RequestEvent> Decider::take(RequestKind kind) {
  const auto found =
      std::ranges::find_if(s_.waiting, [&](const RunState::Waiting& w) { return w.request.kind == kind && w.from <= done(); });
  if (found == s_.waiting.end()) return std::nullopt;
  RequestEvent request = std::move(found->request);
  s_.waiting.erase(found);
  return request;
}

// A signal replaces a stop without one: that request is completed, but the run is not closed, since it will be resumed.
void Decider::take_stops() {
  while (!(s_.stop && s_.stop->signal != 0)) {
    std::optional<RequestEvent> request = take(RequestKind::stop);
    if (!request) return;
    if (!s_.stop || request->signal != 0) s_.stop.swap(request);
    if (request) act(action::Complete{*request, request->text});
  }
}

void Decider::set_rates() {
  while (std::optional<RequestEvent> request = take(RequestKind::rate_factor)) {
    s_.rate = request->factor;
    if (s_.checkpointed == done()) s_.checkpointed.reset();  // the newest checkpoint has the rate of before
    act(action::SetRate{s_.rate});
    act(action::Complete{std::move(*request), {}});
  }
}

void Decider::on(event::Requested& event) {
  // Two graphs may agree at the same time, and then not in the same order in all processes.
  const auto place = std::ranges::upper_bound(s_.waiting, event.from, {}, &RunState::Waiting::from);
  if (has_ended()) return answer(std::move(event.request));
  s_.waiting.insert(place, {std::move(event.request), event.from});
  if (s_.phase == Phase::ready) return;
  take_stops();
  if (!s_.stop) return;
  const bool runs_other = s_.phase == Phase::trying || s_.phase == Phase::passes;
  if (s_.phase == Phase::steps) {
    act(action::StopGraph{0});
    s_.phase = Phase::draining;
  } else if (runs_other && s_.breaks_off(rules_) && !s_.was_stopped) {
    act(action::StopGraph{*s_.running});
    s_.was_stopped = true;
  }
}

// ---- Local events ----

bool Decider::ask_to_stop(std::string why) {
  if (s_.has_asked || !decides()) return false;
  s_.has_asked = true;
  act(action::Ask{{.kind = RequestKind::stop, .by = kStopRule, .text = std::move(why)}});
  return true;
}

void Decider::on(const event::Ticked& event) {
  const double most = rules_.stop.max_seconds;
  if (!rules_.trains || has_ended() || s_.stop || s_.ending || most <= 0 || event.seconds < most) return;
  ask_to_stop(fmt::format("max_time is reached, {}", duration_text(event.seconds)));
}

void Decider::on(const event::Signal& event) {
  if (s_.has_signal || has_ended()) return;
  s_.has_signal = true;
  act(action::Ask{{.by = fmt::format("signal {}", event.signal), .signal = event.signal, .text = {}}});
}

// A run that stops saves a checkpoint anyway.
void Decider::on(const event::CheckpointDue& event) {
  if (s_.phase == Phase::steps) act(action::Ask{{.kind = RequestKind::checkpoint, .by = event.by, .text = {}}});
}

void Decider::on(const event::CaughtUp&) {
  s_.held_by.clear();
  act(action::OpenGate{});
}

void Decider::on(const event::Failed& event) {
  const bool in_pass = s_.phase == Phase::passes || s_.phase == Phase::measuring || s_.phase == Phase::placing;
  // Training survives a mistake in another graph. Of several processes each fails with its own error, and none waits for others.
  if (rules_.trains && in_pass && rules_.is_alone && done() != s_.begun_with && !event.saves_nothing)
    act(action::RescueWeights{});
  const auto refuse = [this](RequestEvent request) { act(action::Refuse{std::move(request), "the run has failed"}); };
  for (std::optional<RequestEvent>* const each : {&s_.ending, &s_.stop}) {
    if (*each && (*each)->signal == 0) refuse(*std::exchange(*each, std::nullopt));
  }
  for (std::vector<RequestEvent>* const each : {&s_.validating, &s_.checkpointing}) {
    for (RequestEvent& request : std::exchange(*each, {})) refuse(std::move(request));
  }
  for (auto& [request, from] : std::exchange(s_.waiting, {})) refuse(std::move(request));
  act(action::Fail{});
  s_.phase = Phase::ended;
}

// ---- The beginning ----

void Decider::on(const event::Began&) {
  take_stops();
  if (!rules_.trains) return begin_passes({0});
  if (s_.rate != 1) act(action::SetRate{s_.rate});
  set_rates();
  ask_if_impatient(Phase::beginning);
}

// Patience ends a run that goes on, once. A resumed run of several processes ends at once: all have read the same state, and a
// request would take effect after another step.
void Decider::ask_if_impatient(Phase while_asking) {
  if (while_asking == Phase::beginning && !rules_.is_alone && rules_.first < rules_.end && is_impatient()) {
    s_.has_asked = true;
    s_.stop = {.kind = RequestKind::stop,
               .by = kStopRule,
               .text = s_.improving.text(*rules_.stop.figure, rules_.stop.threshold)};
    return try_next();
  }
  if (goes_on() && is_impatient() && ask_to_stop(s_.improving.text(*rules_.stop.figure, rules_.stop.threshold))) {
    s_.phase = while_asking;
  } else {
    while_asking == Phase::beginning ? try_next() : agree();
  }
}

void Decider::on(const event::Asked&) {
  if (s_.phase == Phase::beginning) return try_next();
  if (s_.phase == Phase::asking) agree();
}

// A mistake in another graph ends the run before an epoch was computed in vain.
void Decider::try_next() {
  s_.running.reset();
  while (s_.next_try < rules_.others.size() && rules_.first < rules_.end && !s_.stop) {
    const std::size_t graph = ++s_.next_try;
    if (!rules_.others[graph - 1].is_tried) continue;
    s_.phase = Phase::trying;
    s_.running = graph;
    s_.was_stopped = false;
    return act(action::TryGraph{graph});
  }
  begin_owed();
}

// The epoch of a resumed run ends here if larger batches leave no step of it.
void Decider::begin_owed() {
  s_.part = Part::owed;
  if (s_.stop || (s_.left.empty() && !s_.owes_again && !s_.epoch_is_over)) return start_or_end();
  if (!s_.epoch_is_over) return begin_passes(s_.left);
  s_.phase = Phase::settling;
  act(action::Settle{.ends_epoch = true});
}

void Decider::start_or_end() {
  if (s_.stop) return s_.is_over ? end() : begin_close();
  s_.is_over = s_.owes_again = false;
  s_.has_started = true;
  s_.phase = Phase::steps;
  set_rates();
  set_horizon();
  act(action::StartTraining{});
}

// ---- The main graph ----

// The horizon is the next boundary, or an earlier step after which a request is answered.
void Decider::set_horizon() {
  std::uint64_t step = done() + 1;
  while (step < rules_.end && !rules_.is_boundary(step)) ++step;
  for (const auto& [request, from] : s_.waiting) {
    step = std::min(step, request.kind == RequestKind::stop ? from : std::max(from, done() + 1));
  }
  act(action::SetHorizon{std::min(step, rules_.end)});
}

// True if the boundary has not been processed yet.
bool Decider::is_at_boundary() const {
  if (done() == s_.processed) return false;
  return rules_.is_boundary(done()) || is_in_force(RequestKind::save) || is_in_force(RequestKind::validate) ||
         is_in_force(RequestKind::checkpoint);
}

void Decider::on(const event::Reached& event) {
  if (s_.phase != Phase::steps) return;
  s_.done = event.done;
  take_stops();
  set_rates();
  if (is_at_boundary()) return begin_boundary();
  if (s_.stop) act(action::StopGraph{0});  // after its last step the graph drains by itself
  if (s_.stop || done() >= rules_.end) {
    s_.phase = Phase::draining;
  } else {
    set_horizon();
  }
}

void Decider::on(const event::Drained& event) {
  if (event.graph == 0 && rules_.trains) {
    s_.is_drained = true;
    if (s_.phase != Phase::steps && s_.phase != Phase::draining) return;
    s_.done = event.done;
    return after_drained();
  }
  const bool is_broken_off = s_.breaks_off(rules_);  // all processes have agreed on it before the graph was drained
  if (s_.phase == Phase::trying) return is_broken_off ? try_next() : act(action::EndTry{event.graph});
  if (is_broken_off) {
    s_.left.push_back(event.graph);
    return next_pass();
  }
  s_.phase = Phase::measuring;
  act(action::MeasurePass{event.graph, s_.best_in_place});
}

void Decider::after_drained() {
  take_stops();
  set_rates();
  if (is_at_boundary()) return begin_boundary();
  act(action::FinishTraining{});
  s_.stop ? begin_close() : end();
}

// ---- Boundaries ----

void Decider::begin_boundary() {
  s_.part = Part::boundary;
  s_.phase = Phase::settling;
  act(action::Settle{.ends_epoch = rules_.ends_epoch(done())});
}

void Decider::on(const event::Settled& event) {
  // What is owed settles only if the epoch is over.
  const bool ended_epoch = s_.part == Part::owed || (s_.part == Part::boundary && rules_.ends_epoch(done()));
  if (ended_epoch) observe(rules_.graph, event.metrics);
  if (s_.part == Part::boundary && rules_.compare_every > 0 && done() % rules_.compare_every == 0) act(action::CompareWeights{});
  act(action::Flush{});
  if (s_.part == Part::close) return close_passes();
  while (std::optional<RequestEvent> request = s_.part == Part::boundary ? take(RequestKind::validate) : std::nullopt) {
    s_.validating.push_back(std::move(*request));
  }
  std::vector<std::size_t> graphs;
  for (std::size_t g = 1; g <= rules_.others.size(); ++g) {
    const bool is_owed = s_.part == Part::owed && contains(s_.left, g);
    if (is_owed || !s_.validating.empty() || rules_.is_due(g, done())) graphs.push_back(g);
  }
  begin_passes(graphs);
}

// ---- Other graphs ----

// Graphs with every = "end" wait for the best weights, unless they decide which these are, or are requested before the end.
bool Decider::waits_for_best(std::size_t graph) const {
  const RunRules::Other& other = rules_.others[graph - 1];
  const bool is_last = s_.part != Part::boundary || rules_.is_due(graph, done());
  return is_last && rules_.exports_best && rules_.best && rules_.best->graph != other.graph && is_end(other.when);
}

void Decider::begin_passes(const std::vector<std::size_t>& graphs) {
  s_.due.clear();
  s_.waiting_for_best.clear();
  for (const std::size_t g : graphs) (g != 0 && waits_for_best(g) ? s_.waiting_for_best : s_.due).push_back(g);
  s_.left.clear();
  next_pass();
}

void Decider::next_pass() {
  s_.running.reset();
  while (!s_.due.empty()) {
    const std::size_t graph = s_.due.front();
    s_.due.erase(s_.due.begin());
    if (s_.stop) {
      s_.left.push_back(graph);
      continue;
    }
    s_.phase = Phase::passes;
    s_.running = graph;
    s_.was_stopped = false;
    return act(action::RunPass{graph, graph != 0 && s_.best_in_place == 0});
  }
  passes_are_over();
}

void Decider::on(const event::PassEnded& event) {
  const bool is_of_now = s_.best_in_place == 0 && *s_.running != 0;
  if (is_of_now) observe(rules_.others[*s_.running - 1].graph, event.metrics);
  next_pass();
}

void Decider::observe(const std::string& graph, const std::vector<Figure>& metrics) {
  if (rules_.keeps_best() && s_.best.observe(*rules_.best, {}, graph, metrics, done())) {
    s_.has_improved = true;
    s_.best_at = done();
  }
  if (const auto& plan = rules_.stop.figure) s_.improving.observe(*plan, rules_.stop.threshold, graph, metrics, done());
  if (const auto& plan = rules_.plateau.figure) s_.plateau.observe(*plan, rules_.plateau.threshold, graph, metrics, done());
}

void Decider::passes_are_over() {
  if (!rules_.trains) {
    act(action::FinishTraining{});
    return end();
  }
  if (s_.runs_best_passes) {
    s_.runs_best_passes = false;
    const auto is_again = [&](std::size_t g) { return contains(s_.again, g); };
    s_.owes_again = s_.best_in_place != 0 && std::ranges::any_of(s_.left, is_again);
    if (s_.best_in_place != 0 && !s_.owes_again) s_.rewritten = done();
    std::erase_if(s_.left, is_again);
    s_.left.insert(s_.left.begin(), s_.left_before.begin(), s_.left_before.end());
    s_.left_before.clear();
    s_.best_in_place = 0;
    return save_all();
  }
  if (s_.part == Part::boundary) {
    answer_validations();
    std::erase_if(s_.left, [&](std::size_t g) { return !rules_.is_due(g, done()); });
  }
  ask_if_impatient(Phase::asking);
}

void Decider::answer_validations() {
  for (RequestEvent& request : s_.validating) {
    if (rules_.others.empty() || !s_.left.empty()) {
      act(action::Refuse{std::move(request),
                         rules_.others.empty() ? "the pipeline has no other graph" : "the run was stopped first"});
    } else {
      act(action::Complete{std::move(request), {}});
    }
  }
  s_.validating.clear();
}

// ---- What was measured ----

void Decider::agree() {
  s_.phase = Phase::agreeing;
  act(action::Agree{std::exchange(s_.has_improved, false), goes_on() && is_flat()});
}

void Decider::on(const event::Verdict& event) {
  if (event.is_flat) lower_rate();
  s_.is_best = event.is_best;
  if (rules_.exports_best && !rules_.writes_checkpoints) {  // else they are exported from checkpoints
    s_.is_best ? act(action::SaveBest{}) : act(action::RetryBest{});
  }
  begin_best_passes();
}

// From the next step on. A lower factor that was requested stays.
void Decider::lower_rate() {
  const double factor = std::max(s_.rate * rules_.plateau.factor, rules_.plateau.min_factor);
  if (factor < s_.rate) {
    s_.rate = factor;
    act(action::SetRate{factor});
    if (decides()) {
      act(action::Complete{{.kind = RequestKind::rate_factor, .by = kPlateauRule, .factor = factor, .text = {}},
                           s_.plateau.text(*rules_.plateau.figure, rules_.plateau.threshold)});
    }
  }
  s_.plateau.passes = 0;
  s_.plateau.cooldown = rules_.plateau.cooldown;
}

// At the end of a run graphs that write files about predictions run once more with better weights than the last ones: the files
// belong to the weights that are used afterwards.
void Decider::begin_best_passes() {
  s_.again.clear();
  const bool ends = s_.part == Part::close || done() == rules_.end;
  for (std::size_t g = 1; g <= rules_.others.size(); ++g) {
    const RunRules::Other& other = rules_.others[g - 1];
    const bool writes = other.writes_predictions && !other.when.never && !is_end(other.when);
    if (ends && rules_.exports_best && s_.rewritten != done() && writes) s_.again.push_back(g);
  }
  if (s_.waiting_for_best.empty() && s_.again.empty()) return save_all();
  s_.left_before = std::exchange(s_.left, {});
  const bool knows_better = rules_.is_first && s_.has_best() && rules_.keeps_best() && s_.best_at != done();
  s_.phase = Phase::placing;
  act(action::PutBest{knows_better ? std::optional(best_so_far(rules_, s_)) : std::nullopt});
}

void Decider::on(const event::BestInPlace& event) {
  s_.best_in_place = event.step;
  s_.due = event.step != 0 ? s_.again : std::vector<std::size_t>();
  s_.due.insert(s_.due.end(), s_.waiting_for_best.begin(), s_.waiting_for_best.end());
  s_.waiting_for_best.clear();
  s_.runs_best_passes = true;
  next_pass();
}

// ---- Saving ----

void Decider::save_all() {
  if (s_.part == Part::close) {
    if (s_.stop) {  // another one has come meanwhile
      act(action::Complete{*s_.ending, s_.ending->text});
    } else {
      s_.stop = s_.ending;
    }
    s_.ending.reset();
    s_.is_over = s_.stop->signal == 0 || (s_.left.empty() && !s_.owes_again);
    s_.owes_again = false;
    if (s_.is_over) s_.checkpointed.reset();  // a checkpoint of this step may not record that the run is over
    return s_.is_best || s_.is_over ? checkpoint(s_.is_best || s_.best_at == done()) : last();
  }
  while (std::optional<RequestEvent> request = take(RequestKind::save)) {
    act(action::SaveWeights{std::move(*request)});
  }
  checkpoint(s_.is_best);
}

void Decider::checkpoint(bool is_best) {
  while (std::optional<RequestEvent> request = take(RequestKind::checkpoint)) s_.checkpointing.push_back(std::move(*request));
  if (!rules_.writes_checkpoints) {
    for (RequestEvent& request : std::exchange(s_.checkpointing, {}))
      act(action::Refuse{std::move(request), "the run writes no checkpoints"});
    return after_checkpoint();
  }
  const bool must_be = is_best || s_.stop || done() == rules_.end || !s_.checkpointing.empty();
  const bool is_due = must_be || rules_.checkpoint.due(done(), rules_.steps_per_epoch, rules_.end);
  if (is_best || (is_due && s_.checkpointed != done())) {
    s_.phase = Phase::saving;
    return act(action::Checkpoint{is_best, !must_be});
  }
  on(event::CheckpointMade{.was_left_out = true});
}

void Decider::on(const event::CheckpointMade& event) {
  if (!event.was_left_out) s_.checkpointed = done();
  for (RequestEvent& request : std::exchange(s_.checkpointing, {})) act(action::Complete{std::move(request), {}});
  after_checkpoint();
}

void Decider::after_checkpoint() {
  switch (s_.part) {
    case Part::owed: return start_or_end();
    case Part::boundary: return end_boundary();
    case Part::close: return last();
    case Part::last: return end();
  }
}

void Decider::end_boundary() {
  s_.processed = done();
  if (s_.is_drained) return after_drained();
  if (s_.stop || done() >= rules_.end) {
    s_.phase = Phase::draining;
    return act(action::StopGraph{0});
  }
  s_.phase = Phase::steps;
  set_rates();
  act(action::GoOn{});
  set_horizon();
}

// ---- The end ----

// A run that [stop] or an observer ends is over: it is evaluated as after its last step, and may find its best weights there. A
// run that a signal ends will be resumed.
void Decider::begin_close() {
  if (s_.stop->signal != 0 || done() == 0) return last();
  s_.part = Part::close;
  if (done() == rules_.first) return close_passes();
  s_.phase = Phase::settling;
  act(action::Settle{});
}

// Another request to stop skips the passes that have not begun; a signal breaks off the one under way, too.
void Decider::close_passes() {
  if (s_.breaks_off(rules_)) return last();
  s_.ending = std::exchange(s_.stop, std::nullopt);
  std::vector<std::size_t> graphs;
  for (std::size_t g = 1; g <= rules_.others.size(); ++g) {
    const bool was_due = rules_.is_due(g, done());  // it has run, unless it was left
    if (contains(s_.left, g) || (is_end(rules_.others[g - 1].when) && !was_due)) graphs.push_back(g);
  }
  begin_passes(graphs);
}

void Decider::last() {
  s_.part = Part::last;
  if (s_.has_started && s_.checkpointed != done()) return checkpoint(false);
  end();
}

void Decider::answer(RequestEvent request) {
  const bool is_done =
      (request.kind == RequestKind::stop && s_.stop) || (request.kind == RequestKind::checkpoint && s_.checkpointed == done());
  if (is_done) {
    act(action::Complete{std::move(request), {}});
  } else {
    act(action::Refuse{std::move(request), "the run was over"});
  }
}

void Decider::end() {
  s_.phase = Phase::ended;
  if (s_.stop) {
    act(action::Complete{*s_.stop, s_.stop->text});
  } else if (rules_.is_shortened && done() == rules_.end) {
    act(action::Complete{{.kind = RequestKind::stop, .by = kStopRule, .text = {}}, "stop.max_steps"});
  }
  for (auto& [request, from] : std::exchange(s_.waiting, {})) answer(std::move(request));
  act(action::End{});
}

}  // namespace

bool RunRules::is_due(std::size_t other, std::uint64_t done) const {
  return others[other - 1].when.due(done, steps_per_epoch, end);
}

bool RunRules::is_boundary(std::uint64_t done) const {
  if (ends_epoch(done) || (compare_every > 0 && done % compare_every == 0)) return true;
  if (writes_checkpoints && checkpoint.due(done, steps_per_epoch, end)) return true;
  return std::ranges::any_of(others, [&](const Other& other) { return other.when.due(done, steps_per_epoch, end); });
}

bool MetricWatch::observe(const FigurePlan& plan, const Threshold& threshold, const std::string& graph,
                          const std::vector<Figure>& metrics, std::uint64_t step) {
  if (graph != plan.graph) return false;
  const auto found = std::ranges::find(metrics, plan.name, &Figure::name);
  if (found == metrics.end()) return false;
  if (cooldown > 0) {
    --cooldown;
  } else {
    ++passes;
  }
  if (!is_better(*this, found->value, found->higher_is_better, threshold)) return false;
  best = found->value;
  best_step = step;
  batch_size = 0;
  passes = 0;
  return true;
}

std::string MetricWatch::text(const FigurePlan& plan, const Threshold& threshold) const {
  const std::string so_far = best ? fmt::format("; best {:.4g} at step {}", *best, best_step) : std::string();
  std::string least;
  if (threshold.least > 0) {
    least =
        threshold.is_relative ? fmt::format(" by {:.4g} %", 100 * threshold.least) : fmt::format(" by {:.4g}", threshold.least);
  }
  return fmt::format("{} has not improved{} for {} pass{}{}", plan.text(), least, passes, passes == 1 ? "" : "es", so_far);
}

Best best_so_far(const RunRules& rules, const RunState& state) {
  return {rules.best->text(), state.best.best_step, state.best.best.value_or(0)};
}

std::uint64_t first_step_before(const SavedState& saved, std::uint64_t batch_size, std::uint64_t steps_per_epoch) {
  if (saved.batch_size == 0 || saved.batch_size == batch_size) return saved.first_step;
  const std::uint64_t epoch = saved.step - saved.step_of_epoch;  // its first step, counted in batches of then
  if (saved.first_step <= epoch) return 0;                       // all of the epoch under way belongs to the run
  const std::uint64_t before = (saved.first_step - epoch) * saved.batch_size / batch_size;
  return saved.epoch * steps_per_epoch + std::min(before, steps_per_epoch);
}

RunState begin(const RunRules& rules, const SavedState* saved) {
  RunState state;
  state.done = state.processed = state.begun_with = rules.first;
  if (saved == nullptr || !rules.trains) return state;
  const bool counts_alike = saved->batch_size == 0 || saved->batch_size == rules.batch_size;
  state.begun_with = first_step_before(*saved, rules.batch_size, rules.steps_per_epoch);
  const std::uint64_t begin_of_epoch = std::max(saved->epoch * rules.steps_per_epoch, state.begun_with);
  state.epoch_is_over = rules.first > begin_of_epoch && rules.first % rules.steps_per_epoch == 0;
  const auto restore = [&](MetricWatch& watch, const std::string& key) {
    const auto found = saved->watched.find(key);
    if (found == saved->watched.end()) return;
    static_cast<SavedState::Watched&>(watch) = found->second;
    if (watch.batch_size == 0 && !counts_alike) watch.batch_size = saved->batch_size;
  };
  if (rules.keeps_best()) {
    for (const char* rule : {kOldBestKey, kBestRule}) restore(state.best, key_of(rule, rules.best));
    const bool is_of_checkpoint = state.best.best && state.best.best_step == saved->step &&
                                  (state.best.batch_size == 0 || state.best.batch_size == saved->batch_size);
    if (is_of_checkpoint) state.best_at = rules.first;
  }
  if (rules.stop.figure) restore(state.improving, key_of(kStopKey, rules.stop.figure));
  if (rules.plateau.figure) restore(state.plateau, key_of(kPlateauKey, rules.plateau.figure));
  state.rate = saved->rate_factor;
  state.is_over = saved->left.run_is_over;
  for (std::size_t g = 1; g <= rules.others.size(); ++g) {
    if (std::ranges::find(saved->left.passes, rules.others[g - 1].graph) != saved->left.passes.end()) state.left.push_back(g);
  }
  state.owes_again = saved->left.best_passes;
  if (state.left.empty() && !state.owes_again && counts_alike && saved->step == rules.first) state.checkpointed = saved->step;
  return state;
}

void save(const RunRules& rules, const RunState& state, SavedState& saved) {
  saved.step = state.done;
  saved.epoch = state.done / rules.steps_per_epoch;
  saved.step_of_epoch = state.done % rules.steps_per_epoch;
  saved.batch_size = rules.batch_size;
  saved.first_step = state.begun_with;
  saved.rate_factor = state.rate;
  for (const std::size_t g : state.left) saved.left.passes.push_back(rules.others[g - 1].graph);
  saved.left.run_is_over = state.is_over;
  saved.left.best_passes = state.owes_again;
  if (rules.keeps_best()) saved.watched[key_of(kBestRule, rules.best)] = state.best;
  if (rules.stop.figure) saved.watched[key_of(kStopKey, rules.stop.figure)] = state.improving;
  if (rules.plateau.figure) saved.watched[key_of(kPlateauKey, rules.plateau.figure)] = state.plateau;
}

bool rolls_back(const RunRules& rules, bool number_is_wrong, bool has_checkpoint) {
  return rules.rolls_back && number_is_wrong && has_checkpoint;
}

Decision decide(const RunRules& rules, RunState state, RunEvent event) {
  Decider decider(rules, std::move(state));
  std::visit([&](auto& each) { decider.on(each); }, event);
  return decider.decision();
}

}  // namespace millrace
