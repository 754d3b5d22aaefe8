// Long because everything that happens in a run is in one place.
#include "run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "checkpoint/best.h"
#include "checkpoint/run_folder.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "run/card.h"
#include "run/doctor/doctor.h"
#include "run/kept_files.h"
#include "run/prepare.h"
#include "run/stopwatch.h"
#include "run/weight_comparison.h"
#include "util/out_of_memory.h"
#include "util/shell.h"
#include "weights/weights.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// "": this process writes no files.
fs::path make_folder_of(const PreparedRun& run) {
  const RunParams& params = run.pipeline.run;
  if (params.folder.empty() || run.options.only_main || !run.options.is_first()) return {};
  if (!run.resume_point) return make_run_folder(params.folder, params.name);
  const fs::path& folder = run.resume_point->run;
  std::error_code error;
  fs::create_directories(folder, error);  // it may be gone, where checkpoints lie elsewhere
  if (error) fail(ErrorKind::usage, "the run's folder '{}' cannot be made: {}", folder.string(), error.message());
  return folder;
}

template <class... F>
struct ActionTable : F... {
  using F::operator()...;
};
template <class... F>
ActionTable(F...) -> ActionTable<F...>;

constexpr std::uint64_t kTrialSteps = 2;  // of each other graph, before the first epoch

std::string weights_name(std::uint64_t done) { return fmt::format("weights-step-{}.safetensors", done); }

std::string status_of(const RunContext& run, std::size_t graph) {
  const std::string text = text_of(run.graph(graph).stall_report(), run.builds()[graph]->plan().name);
  return run.options().group == nullptr ? text : fmt::format("rank {}: {}", run.options().group->rank(), text);
}

// Throws if all samples of the graph are bad: it would have no metrics. REQUIRES: the graph was tried.
void require_usable_samples(const RunContext& run, const GraphBuild& build) {
  const GraphData& data = build.data();
  if (run.options().group != nullptr || data.samples_per_epoch == 0) return;
  if (run.findings().bad_samples.held(build.plan().name) < data.samples_per_epoch) return;
  fail(ErrorKind::data, "none of its {} samples can be used, so nothing would be measured", data.samples_per_epoch);
}

// Called when training starts: a run that was refused before has no weights. A user who names the run may mean an older one.
void point_latest(const RunContext& run) {
  const RunOptions& options = run.options();
  const bool has_folder = !run.pipeline().run.folder.empty() && !options.only_main && options.is_first();
  const bool is_named = options.resume.run && !options.resume.run->empty();
  if (!has_folder || (run.prepared.resume_point && is_named)) return;
  if (std::string why = point_latest_to(run.log().output_folder()); !why.empty()) run.prepared.audience.warn(std::move(why));
}

}  // namespace

Runner::Runner(PreparedRun& prepared, double seconds, bool is_last_try)
    : prepared_(prepared), seconds_(seconds), is_last_try_(is_last_try), run_{.prepared = prepared, .barriers = barriers_} {}

Runner::~Runner() {
  const Error given_up(ErrorKind::peer, "it was given up");
  prepared_.leave(&given_up);
  if (checkpointer_) checkpointer_->stop();  // it fetches from replicas
  barriers_.clear();
  prepared_.audience.requests().give_to(nullptr);
  prepared_.graphs.clear();  // their gates call this
}

// ---- A run as a whole ----

Ended Runner::run() {
  Ended ended;
  try {
    ended = train();
    if (prepared_.options.group != nullptr) run_.observers().flush({});  // has sent all events of this process
    leave_together(prepared_);
  } catch (...) {
    return end_with(current_error());
  }
  RunEnd end;
  end.epoch = ended.epoch;
  end.step = ended.step;
  end.signal = ended.signal;
  end.stopped = ended.stopped;
  end.weights_file = ended.weights_file;
  try {
    prepared_.audience.end(std::move(end));
  } catch (const Error& error) {
    if (ended.weights_file.empty()) throw;
    fail(ErrorKind::run, "{}; the run is done, and its weights are in '{}'", error.what(), ended.weights_file);
  }
  return ended;
}

Ended Runner::end_with(Error error) {
  if (lacks_memory(error)) error = with_memory(error, "", prepared_.memory(), prepared_.host_memory());
  prepared_.leave(&error);
  const auto add = [&error](const std::string& lost) {
    if (!lost.empty()) error = {error.kind(), fmt::format("{}; {}", error.what(), lost)};
  };
  if (checkpointer_) add(checkpointer_->stop());  // its last writes are reported before the end
  if (weights_) add(weights_->finish_best());
  error = wrong_number() && error.kind() == ErrorKind::run ? with_advice(error) : with_checkpoint(error);
  RunEnd end;
  end.error = error.what();
  try {
    prepared_.audience.end(std::move(end));
  } catch (const Error& lost) {
    prepared_.audience.warn(lost.what());
  }
  if (!rolls_back(rules_, wrong_number().has_value(), !newest_checkpoint().empty())) throw error;
  Ended ended;
  ended.rollback = rollback(std::move(error));
  return ended;
}

// If the run went back to the newest checkpoint before, and has written none since, that checkpoint may hold the trouble. Then
// the next try resumes from the one before it, to which `latest` is moved.
Rollback Runner::rollback(Error error) {
  const WrongNumber wrong = wrong_number().value();
  RunOptions options = prepared_.options;
  options.from = {};
  options.weights.clear();
  options.resume.run = folder().string();
  options.resume.rate_factor = prepared_.audience.requests().factor(wrong.step) * prepared_.pipeline.run.nan_rate_factor;
  std::string checkpoint = newest_checkpoint();
  const std::optional<ResumePoint>& from = prepared_.resume_point;
  const bool was_in_vain = prepared_.options.resume.rate_factor && from && from->path.string() == checkpoint;
  if (was_in_vain && !is_last_try_) checkpoint = checkpointer_->point_before(from->checkpoint.state.step);
  options.resume.notice = fmt::format("{}: the run returns to '{}', with {:g} times the learning rate of the file", wrong.text(),
                                      checkpoint, *options.resume.rate_factor);
  return {std::move(error), std::move(options), run_.observers().elapsed_seconds()};
}

Ended run_once(PreparedRun& prepared) {
  Ended ended = Runner(prepared).run();
  if (ended.rollback) throw Error(ended.rollback->error);
  return ended;
}

Ended run_with_rollbacks(const Pipeline& pipeline, const Registry& registry, RunOptions options,
                         const std::function<void(PreparedRun&)>& prepared) {
  double seconds = 0;
  for (std::int64_t times = 0;; ++times) {
    const std::unique_ptr<PreparedRun> ready = prepare(pipeline, registry, options);
    if (prepared) leave_on_error(*ready, [&] { prepared(*ready); });
    Ended ended = Runner(*ready, seconds, times == pipeline.run.nan_limit).run();
    if (!ended.rollback) return ended;
    if (times == pipeline.run.nan_limit) {
      throw ended.rollback->error.in(
          fmt::format("after it returned to a checkpoint {} time{} (run.nan_limit)", times, times == 1 ? "" : "s"));
    }
    options = std::move(ended.rollback->options);
    seconds = ended.rollback->seconds;
  }
}

Ended Runner::train() {
  const fs::path folder = make_folder_of(prepared_);
  ResumePoint* const from = prepared_.resume_point ? &*prepared_.resume_point : nullptr;
  RunLog& log = run_.log();
  run_.observers().restart_clock(std::max(seconds_, from != nullptr ? from->checkpoint.state.seconds : 0));
  if (prepared_.pipeline.network && prepared_.main().trains() && !folder.empty()) {
    prepared_.options.doing("checking some images");
    prepared_.images = summary_of_files(prepared_.main(), static_cast<unsigned>(prepared_.data_threads()));  // for the writers
  }
  make_writers(folder);
  run_.weights = weights_.get();
  run_.checkpointer = checkpointer_.get();
  log.set_folder(folder);
  if (!folder.empty()) keep_run(prepared_, folder);
  prepared_.open_graphs();
  examine(prepared_, Known::graphs);
  make_barriers();
  watch_gates();
  start_replicas(prepared_);
  if (from != nullptr) {
    checkpointer_->restore(*from, prepared_.steps.first);
    if (prepared_.options.is_first()) run_.findings().bad_samples.restore(from->checkpoint.state);  // the others send it theirs
  }
  rules_ = rules();
  state_ = begin(rules_, from != nullptr ? &from->checkpoint.state : nullptr);
  progress_.done = state_.done;
  meter_.emplace(run_, state_, progress_);
  if (from != nullptr && rules_.trains) meter_->restore(from->checkpoint.state);
  if (rules_.trains) run_.graph(0).on_step_done([this](std::uint64_t step) { step_done(step); });
  report_start();
  run_.doing("the first step");
  prepared_.audience.requests().give_to([this](RequestEvent request, std::uint64_t step) { take(std::move(request), step); });
  loop();
  put_back_weights();  // files of the last weights follow
  end_requests();

  Ended ended;
  ended.epoch = static_cast<double>(state_.done) / static_cast<double>(rules_.steps_per_epoch);
  ended.step = state_.done;
  ended.stopped = state_.stop ? state_.done < rules_.end : rules_.is_shortened && state_.done == rules_.end;
  ended.signal = state_.stop ? state_.stop->signal : 0;
  ended.first_step = state_.begun_with;
  ended.measured = meter_->end_run();
  if (state_.has_best()) ended.best_found = best_so_far(rules_, state_);
  ended.folder = folder.string();
  for (const auto& barrier : barriers_) barrier->end();  // a rank may have read ahead of one that has stopped
  prepared_.graphs.clear();                              // stages stop, and may warn of what they could not finish
  ended.not_finite = !rules_.trains && run_.findings().numbers.steps() > 0;
  if (!rules_.trains) return ended;
  run_.doing("the weights to be written");
  save_results(ended);
  return ended;
}

RunRules Runner::rules() const {
  const Pipeline& pipeline = prepared_.pipeline;
  const GraphBuild& main = prepared_.main();
  const auto compared = static_cast<std::uint64_t>(pipeline.run.compare_replicas);
  RunRules rules{.graph = main.plan().name,
                 .first = prepared_.steps.first,
                 .end = prepared_.steps.end,
                 .steps_per_epoch = std::max<std::uint64_t>(main.data().steps_per_epoch(), 1),
                 .batch_size = main.data().batch.size,
                 .is_shortened = prepared_.steps.is_shortened(),
                 .trains = main.trains(),
                 .is_alone = prepared_.options.group == nullptr,
                 .is_first = prepared_.options.is_first(),
                 .has_folder = !pipeline.run.folder.empty(),
                 .writes_checkpoints = checkpointer_ != nullptr,
                 .exports_best = pipeline.best.has_value(),
                 .rolls_back = pipeline.run.on_nan == "rollback" && !prepared_.options.only_main,
                 .compare_every = prepared_.replicas.all() > 1 ? compared : 0,
                 .checkpoint = pipeline.checkpoint.every,
                 .best = best_figure(pipeline),
                 .stop = pipeline.stop,
                 .plateau = pipeline.plateau,
                 .others = {}};
  for (std::size_t g = 1; g < prepared_.builds.size(); ++g) {
    const GraphPlan& plan = prepared_.builds[g]->plan();
    rules.others.push_back({plan.name, plan.when, plan.before, has_predictions(plan)});
  }
  return rules;
}

void Runner::report_start() {
  const RunParams& params = prepared_.pipeline.run;
  RunStart event;
  event.name = params.name;
  event.file = prepared_.pipeline.file;
  event.folder = params.folder.empty() ? "" : run_.log().output_folder();
  event.graph = rules_.graph;
  event.seed = params.seed;
  event.epochs = params.epochs;
  event.first_step = rules_.first + 1;
  event.steps = rules_.end;
  event.steps_per_epoch = rules_.steps_per_epoch;
  event.replicas = prepared_.replicas.all();
  if (const auto& from = prepared_.resume_point) {
    event.resumed = true;
    event.checkpoint_step = from->checkpoint.state.step;
    event.checkpoint = from->path;
  }
  run_.observers().start(std::move(event), [this](const std::string& observer) { run_.doing("observer " + observer); });
  prepared_.audience.listen();
}

// ---- What other threads do ----

void Runner::put(RunEvent event) {
  inbox_.push_back(std::move(event));
  changed_.notify_all();
}

void Runner::check_horizon() {
  if (!is_training_ || was_reached_ || progress_.done < gate_horizon_) return;
  was_reached_ = true;
  put(event::Reached{progress_.done});
}

// A stop takes effect after `from` steps, other requests after the step under way at the earliest.
std::uint64_t Runner::limit_of(const event::Requested& requested, std::uint64_t done) {
  return requested.request.kind == RequestKind::stop ? requested.from : std::max(requested.from, done + 1);
}

// Ranks agree on a request with a step before that step passes the gate, so the horizon is lower in time.
void Runner::take(RequestEvent request, std::uint64_t from) {
  const Lock lock(mutex_);
  event::Requested requested{std::move(request), from};
  const std::uint64_t limit = limit_of(requested, progress_.done);
  put(std::move(requested));
  if (!is_training_ || limit >= wanted_horizon_) return;
  wanted_horizon_ = limit;
  gate_horizon_ = run_.graph(0).set_horizon(wanted_horizon_);
  check_horizon();
}

// The next step does not begin before this returns.
void Runner::step_done(std::uint64_t step) {
  run_.findings().steps.done(step);
  if (prepared_.options.group != nullptr) run_.doing(fmt::format("step {}", step + 2));  // for others, should it be lost
  std::string behind = run_.observers().behind(Observers::kMaxBehind);
  const Lock lock(mutex_);
  progress_.done = step + 1;
  if (has_wrong_number()) {
    run_.graph(0).hold();
    changed_.notify_all();
  } else if (!behind.empty() && progress_.done < gate_horizon_) {
    run_.graph(0).hold();
    put(event::Behind{std::move(behind)});
  }
  check_horizon();
}

void Runner::drained(std::size_t graph, std::optional<Error> error) {
  const Lock lock(mutex_);
  const bool is_main = graph == 0 && rules_.trains;
  (is_main ? main_ : other_).error = std::move(error);
  if (is_main) {
    progress_.is_drained = true;
    is_training_ = false;
  }
  (is_main ? main_drained_ : other_drained_) =
      event::Drained{graph, progress_.done};  // allocates nothing: memory may be exhausted
  changed_.notify_all();
}

// ---- The loop ----

void Runner::loop() {
  try {
    begin_requests();
    feed(event::Began{});
    while (state_.phase != RunState::Phase::ended) {
      poll();
      if (std::optional<RunEvent> event = next()) {
        feed(std::move(*event));
      } else {
        throw_if_wrong_number();
      }
      if (std::chrono::steady_clock::now() - ticked_ >= prepared_.options.check_period) tick();
    }
  } catch (...) {
    stop_graphs();
    throw Error(give_up(current_error()));
  }
}

// Requests that precede the first event: a run that is to stop starts no graph, and a rate applies from the first step on.
void Runner::begin_requests() {
  const std::atomic<int>* const signal = prepared_.options.hooks.stop_signal;
  if (const int number = signal != nullptr ? signal->load() : 0; number != 0) feed(event::Signal{number});
  results_.clear();  // requested, and not waited for
  std::deque<RunEvent> requests;
  {
    const Lock lock(mutex_);
    requests.swap(inbox_);
  }
  for (RunEvent& request : requests) feed(std::move(request));
}

// Events of other threads precede the results of actions, so that the rules see requests as early as possible.
std::optional<RunEvent> Runner::next() {
  Lock lock(mutex_);
  const auto is_drained = [this]() MILLRACE_REQUIRES(mutex_) { return main_drained_ || other_drained_; };
  if (inbox_.empty() && results_.empty() && !is_drained()) {
    const auto end = std::chrono::steady_clock::now() + prepared_.options.check_period;
    while (inbox_.empty() && !is_drained() && !has_wrong_number() && lock.wait_until(changed_, end)) continue;
  }
  if (inbox_.empty()) {
    for (std::optional<event::Drained>* const drained : {&main_drained_, &other_drained_}) {
      if (*drained) return *std::exchange(*drained, std::nullopt);
    }
  }
  std::deque<RunEvent>& events = inbox_.empty() ? results_ : inbox_;
  if (events.empty()) return std::nullopt;
  RunEvent event = std::move(events.front());
  events.pop_front();
  return event;
}

// Observers receive metrics after the rules have decided about them, and before any action.
void Runner::feed(RunEvent event) {
  if (const auto* drained = std::get_if<event::Drained>(&event)) join(*drained);
  const bool has_pass = std::holds_alternative<event::PassEnded>(event),
             has_epoch = std::holds_alternative<event::Settled>(event);
  Decision decision = decide(rules_, std::move(state_), std::move(event));
  state_ = std::move(decision.state);
  if (has_pass && pass_) meter_->report(*std::exchange(pass_, std::nullopt));
  if (has_epoch && epoch_) {
    meter_->report(*std::exchange(epoch_, std::nullopt));
    if (state_.part == RunState::Part::boundary) slow_replica_.check(run_);
  }
  throw_if_wrong_number();
  if (is_rehearsing_ && state_.phase != RunState::Phase::trying) run_.log().set_dry_run(is_rehearsing_ = false);
  for (Action& each : decision.actions) execute(each);
}

// Local events.
void Runner::poll() {
  const RunHooks& hooks = prepared_.options.hooks;
  if (rules_.stop.max_seconds > 0 && !state_.has_asked) feed(event::Ticked{run_.observers().elapsed_seconds()});
  if (hooks.stop_signal != nullptr && !state_.has_signal) {
    if (const int signal = hooks.stop_signal->load(); signal != 0) feed(event::Signal{signal});
  }
  if (state_.phase == RunState::Phase::steps) {
    if (checkpointer_ && checkpointer_->is_time()) feed(event::CheckpointDue{"[checkpoint]"});
    const int signals = hooks.checkpoint_signals != nullptr ? hooks.checkpoint_signals->load() : 0;
    if (std::exchange(checkpoint_signals_, signals) != signals) feed(event::CheckpointDue{"a signal"});
  }
  if (!state_.held_by.empty() && run_.observers().behind(Observers::kMaxBehind / 2).empty()) feed(event::CaughtUp{});
}

// Called some times a second: reports the activity, progress and stalls of the running graph.
void Runner::tick() {
  const bool is_main_running = state_.phase == RunState::Phase::steps || state_.phase == RunState::Phase::draining;
  const bool is_other_running = state_.phase == RunState::Phase::trying || state_.phase == RunState::Phase::passes;
  if (!is_main_running && !is_other_running) return;  // soon: epochs of few steps are mostly boundaries
  ticked_ = std::chrono::steady_clock::now();
  const std::size_t index = is_main_running ? 0 : *state_.running;
  Running& running = is_main_running ? main_ : other_;
  const Graph& graph = run_.graph(index);
  const bool is_stopping = is_main_running ? state_.stop.has_value() : state_.breaks_off(rules_);
  if (is_stopping) {
    run_.doing("the steps under way: " + text_of(graph.stall_report(), name_of(index)));
  } else if (state_.held_by.empty() || !is_main_running) {
    if (const std::string text = running.stall.check(graph, name_of(index)); !text.empty()) run_.log().warn(text);
  }
  if (index != 0) return;
  report_progress();
}

void Runner::report_progress() {
  const bool is_main_running = state_.phase == RunState::Phase::steps || state_.phase == RunState::Phase::draining;
  if (meter_->telemetry() && is_main_running) meter_->tick(state_.held_by.empty() ? "" : "observer " + state_.held_by);
}

// No thread uses a graph afterwards.
void Runner::stop_graphs() {
  for (Running* running : {&other_, &main_}) {
    if (!running->waiter.joinable()) continue;
    run_.graph(running->graph).stop();
    running->waiter.join();
    running->status.reset();
  }
}

// Returns the error, which names the file if weights were rescued. REQUIRES: graphs were stopped.
Error Runner::give_up(Error error) {
  if (state_.phase == RunState::Phase::trying) {
    run_.findings().bad_samples.report_held();
    error = error.in(fmt::format("before the first step, [{}] was tried", name_of(*state_.running)));
  }
  try {
    put_back_weights();
  } catch (const Error&) {  // the first error counts
  }
  const bool saves_nothing =
      !is_in_pass_ || has_wrong_number() || error.kind() == ErrorKind::device || error.message() == kOutOfMemory;
  Decision decision = decide(rules_, std::move(state_), event::Failed{saves_nothing});
  state_ = std::move(decision.state);
  for (const Action& action : decision.actions) {
    if (std::holds_alternative<action::RescueWeights>(action)) error = with_weights(error);
    if (const auto* refused = std::get_if<action::Refuse>(&action)) refuse_after_failure(*refused);
  }
  return error;
}

void Runner::refuse_after_failure(const action::Refuse& action) {
  try {
    prepared_.audience.requests().refuse(action.request, action.why);
  } catch (const Error&) {  // the first error counts
  }
}

Error Runner::with_weights(const Error& error) {
  try {
    const std::string file = weights_ == nullptr ? std::string() : weights_->save(weights_name(state_.done));
    if (!file.empty()) {
      return {error.kind(), fmt::format("{}; the weights of step {} are in '{}'", error.what(), state_.done, file)};
    }
  } catch (const Error&) {  // the first error counts
  }
  return error;
}

// Answers requests that arrived after the end, and takes no more.
void Runner::end_requests() {
  Requests& requests = prepared_.audience.requests();
  requests.give_to(nullptr);
  {
    const Lock lock(mutex_);
    for (RunEvent& event : inbox_) results_.push_back(std::move(event));
    inbox_.clear();
  }
  for (RequestEvent& request : requests.take_outside()) results_.emplace_back(event::Requested{std::move(request), 0});
  for (RunEvent& event : std::exchange(results_, {})) {
    if (std::holds_alternative<event::Requested>(event)) feed(std::move(event));
  }
}

bool Runner::has_wrong_number() const {  // trials and profiles look for themselves
  return rules_.trains && !prepared_.options.only_main && run_.findings().numbers.in_trouble();
}

// Throws if a number of the training is not finite: no pass and no checkpoint is worthwhile then.
void Runner::throw_if_wrong_number() const {
  if (has_wrong_number()) fail(ErrorKind::run, "{}", run_.findings().numbers.trouble()->text());
}

Observers::Waiting Runner::waiting() {
  return [this](const std::string& observer) {
    run_.doing("observer " + observer);
    meter_->tick("observer " + observer);
  };
}

void Runner::pause_for(const char* what, const std::function<void()>& work) {
  Stopwatch watch;
  watch.start();
  work();
  meter_->add_pause(what, watch.seconds());
}

// ---- Actions ----

void Runner::execute(Action& action) {
  Requests& requests = prepared_.audience.requests();
  const std::uint64_t done = state_.done;
  std::visit(
      ActionTable{
          [&](const action::TryGraph& each) { try_graph(each); },
          [&](const action::EndTry& each) { end_try(each); },
          [&](const action::StartTraining&) { start_training(); },
          [&](const action::SetHorizon& each) { set_horizon(each); },
          [&](const action::GoOn&) { meter_->resume(); },
          [&](const action::StopGraph& each) {
            if (each.graph == 0 && rules_.trains) report_progress();  // ranks need a report that precedes the last one
            run_.graph(each.graph).stop();
          },
          [&](const action::FinishTraining&) { finish_training(); },
          [&](const action::Settle& each) { settle(each); },
          [&](const action::CompareWeights&) {
            run_.doing(fmt::format("comparing the weights of the replicas, after step {}", done));
            pause_for("compare_replicas", [&] { require_same_weights(run_, done); });
          },
          [&](const action::Flush&) { pause_for("observers", [&] { run_.observers().flush(waiting()); }); },
          [&](const action::RunPass& each) { run_pass(each); },
          [&](const action::MeasurePass& each) { measure_pass(each); },
          [&](action::Ask& each) {
            requests.ask(std::move(each.request));
            results_.emplace_back(event::Asked{});
          },
          [&](action::Complete& each) { requests.complete(std::move(each.request), progress_.done, std::move(each.text)); },
          [&](action::Refuse& each) { requests.refuse(std::move(each.request), std::move(each.why)); },
          [&](const action::SetRate& each) { requests.set_factor(done, each.factor); },
          [&](const action::Agree& each) { agree(each); },
          [&](const action::SaveBest&) { weights_->save_best(best_so_far(rules_, state_)); },
          [&](const action::RetryBest&) { weights_->retry_best(); },
          [&](const action::PutBest& each) { put_best(each); },
          [&](action::SaveWeights& each) { save_weights(each); },
          [&](const action::Checkpoint& each) { checkpoint(each); },
          [&](const action::OpenGate&) { run_.graph(0).resume(); },
          [](const action::RescueWeights&) {},  // give_up() does
          [](const action::Fail&) {},
          [](const action::End&) {},
      },
      action);
}

// ---- Graphs ----

void Runner::start(std::size_t graph, std::uint64_t first, std::uint64_t last) {
  Running& running = graph == 0 && rules_.trains ? main_ : other_;
  if (!barriers_.empty()) barriers_[graph]->start(first);
  running.graph = graph;
  running.stall = {};
  running.waiter = start_apart(run_.graph(graph), first, last,
                               [this, graph](std::optional<Error> error) { drained(graph, std::move(error)); });
  running.status.emplace(prepared_.options.hooks.activity, [this, graph] { return status_of(run_, graph); });
}

// Throws the error that has ended the graph. During a boundary an error of the main graph is left to finish_training().
void Runner::join(const event::Drained& event) {
  if (event.graph == 0 && rules_.trains) {
    const bool is_idle = state_.phase == RunState::Phase::steps || state_.phase == RunState::Phase::draining;
    if (main_.error && is_idle) throw Error(*main_.error);
    return;
  }
  other_.waiter.join();
  other_.status.reset();
  if (const std::optional<Error> error = std::exchange(other_.error, std::nullopt)) throw Error(*error);
}

// Runs the first batches of another graph with the initial weights, so that a mistake in it ends the run before the first epoch.
// Observers receive nothing, and predictions are not written.
void Runner::try_graph(const action::TryGraph& action) {
  run_.log().set_dry_run(is_rehearsing_ = true);
  run_.doing(fmt::format("the first batches of [{}]", name_of(action.graph)));
  run_.findings().epochs.begin_pass(name_of(action.graph));
  start(action.graph, 0, std::min(kTrialSteps, prepared_.builds[action.graph]->data().steps_per_epoch()));
}

void Runner::end_try(const action::EndTry& action) {
  const GraphBuild& build = *prepared_.builds[action.graph];
  require_usable_samples(run_, build);
  const std::uint64_t steps = std::min(kTrialSteps, build.data().steps_per_epoch());
  if (!barriers_.empty() && has_reports(build.plan())) meter_->await_others(build.plan().name, 0, steps);
  results_.emplace_back(event::Tried{});
}

void Runner::start_training() {
  point_latest(run_);
  run_.doing("the first step");
  meter_->resume();
  {
    const Lock lock(mutex_);
    is_training_ = true;
    lower_horizon_for_requests();
  }
  start(0, rules_.first, rules_.end);
}

void Runner::set_horizon(const action::SetHorizon& action) {
  put_back_weights();
  const Lock lock(mutex_);
  wanted_horizon_ = action.step;
  was_reached_ = false;
  lower_horizon_for_requests();
}

// Requests that were put before the graph, or its next steps, began.
void Runner::lower_horizon_for_requests() {
  for (const RunEvent& each : inbox_) {
    if (const auto* requested = std::get_if<event::Requested>(&each))
      wanted_horizon_ = std::min(wanted_horizon_, limit_of(*requested, progress_.done));
  }
  gate_horizon_ = run_.graph(0).set_horizon(wanted_horizon_);
  check_horizon();
}

void Runner::finish_training() {
  put_back_weights();
  meter_->last_telemetry();
  if (main_.waiter.joinable()) main_.waiter.join();
  main_.status.reset();
  meter_->pause();
  if (main_.error) throw Error(*main_.error);
}

void Runner::settle(const action::Settle& action) {
  is_in_pass_ = false;
  const std::uint64_t done = state_.done;
  run_.doing(fmt::format("devices, at the end of step {}", done));
  for (const auto& replica : run_.replicas()) replica->finish();  // the reports of these steps are on their way
  meter_->pause();                                                // with what devices still had to do
  meter_->await_steps(done);
  event::Settled settled;
  if (action.ends_epoch) {
    epoch_ = meter_->measure_epoch((done - 1) / rules_.steps_per_epoch, done);
    settled.metrics = epoch_->event.figures;
  }
  results_.emplace_back(std::move(settled));
}

void Runner::run_pass(const action::RunPass& action) {
  is_in_pass_ = true;
  if (action.is_averaged && !are_averaged_) {
    put_back_weights();
    swap_averaged();
  }
  if (action.graph == 0) meter_->resume();
  const std::uint64_t first = action.graph == 0 ? rules_.first : 0;
  const std::uint64_t last = action.graph == 0 ? rules_.end : prepared_.builds[action.graph]->data().steps_per_epoch();
  passing_ = {.graph = action.graph, .first = first, .last = last};
  skipped_before_ = run_.findings().bad_samples.skipped(name_of(action.graph));
  pass_began_ = std::chrono::steady_clock::now();
  run_.doing(fmt::format("[{}]", name_of(action.graph)));
  run_.findings().epochs.begin_pass(name_of(action.graph));
  start(action.graph, first, last);
}

void Runner::measure_pass(const action::MeasurePass& action) {
  const GraphBuild& build = *prepared_.builds[action.graph];
  const std::string& name = build.plan().name;
  passing_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - pass_began_).count();
  if (!barriers_.empty() && has_reports(build.plan()))
    meter_->await_others(name, passing_.first / build.data().steps_per_epoch(), passing_.last - passing_.first);
  run_.findings().bad_samples.done(name, UINT64_MAX, 0);
  passing_.left_out = run_.findings().bad_samples.skipped(name) - skipped_before_;
  passing_.best_step = action.best_step;
  pass_ = meter_->measure_pass(passing_);
  results_.emplace_back(event::PassEnded{pass_->event.figures});
}

// Rank 0 alone has the metrics of all.
void Runner::agree(const action::Agree& action) {
  is_in_pass_ = false;
  put_back_weights();
  event::Verdict verdict{action.is_best, action.is_flat};
  if (Group* const group = prepared_.options.group; group != nullptr && (rules_.keeps_best() || rules_.plateau.figure)) {
    std::vector<std::byte> verdicts;
    for (const bool each : {action.is_best, action.is_flat}) verdicts.push_back(each ? std::byte{1} : std::byte{0});
    group->broadcast(Group::kRun, 0, verdicts);
    verdict = {verdicts.at(0) != std::byte{0}, verdicts.at(1) != std::byte{0}};
  }
  results_.emplace_back(verdict);
}

// ---- Weights and checkpoints ----

void Runner::swap_averaged() {
  const auto& evaluated = prepared_.replicas.request().evaluated;
  if (!evaluated.empty()) {
    for (const auto& replica : run_.replicas()) replica->swap_with(evaluated);
  }
  are_averaged_ = !are_averaged_;
}

// Replicas hold the last weights again.
void Runner::put_back_weights() {
  best_.reset();
  if (are_averaged_) swap_averaged();
}

void Runner::put_best(const action::PutBest& action) {
  is_in_pass_ = true;
  put_back_weights();
  best_.emplace(run_, action.best);
  const std::uint64_t step = best_->step();
  if (step == 0) best_.reset();
  results_.emplace_back(event::BestInPlace{step});
}

void Runner::save_weights(action::SaveWeights& action) {
  put_back_weights();
  Requests& requests = prepared_.audience.requests();
  try {
    const std::string file = weights_ == nullptr ? std::string() : weights_->save(weights_name(state_.done));
    if (file.empty()) {
      requests.refuse(std::move(action.request), "the run has no folder");
    } else {
      requests.complete(std::move(action.request), state_.done, file);
    }
  } catch (const Error& error) {
    requests.refuse(std::move(action.request), error.what());
  }
}

void Runner::checkpoint(const action::Checkpoint& action) {
  is_in_pass_ = false;
  put_back_weights();
  pause_for("checkpoint", [&] {
    const auto since = Checkpointer::Clock::now();
    const bool is_left_out = action.may_be_left_out && leaves_out();
    results_.emplace_back(event::CheckpointMade{is_left_out});
    if (is_left_out) return;
    run_.doing(fmt::format("the checkpoint after step {}", state_.done));
    SavedState now = saved_state();
    run_.observers().flush(waiting());  // what precedes it is written down
    checkpointer_->save(std::move(now), action.is_best, since);
  });
}

// Rank 0, which writes, decides for all processes.
bool Runner::leaves_out() {
  const bool out = checkpointer_->backs_off();
  if (prepared_.options.group == nullptr) return out;
  std::vector<std::byte> verdict{out ? std::byte{1} : std::byte{0}};
  prepared_.options.group->broadcast(Group::kRun, 0, verdict);
  return verdict.at(0) != std::byte{0};
}

SavedState Runner::saved_state() {
  SavedState saved;
  save(rules_, state_, saved);
  saved.seconds = run_.observers().elapsed_seconds();
  run_.findings().bad_samples.done(rules_.graph, saved.epoch, saved.step_of_epoch * rules_.batch_size);
  run_.findings().bad_samples.save(saved);
  if (saved.step_of_epoch > 0) saved.so_far = meter_->epoch_so_far(state_.done);
  return saved;
}

// ---- Files of a run ----

fs::path Runner::folder() const { return prepared_.pipeline.run.folder.empty() ? std::string() : run_.log().output_folder(); }

void Runner::make_writers(const fs::path& folder) {
  const Pipeline& pipeline = prepared_.pipeline;
  if (!pipeline.network) return;
  fs::path rescue;
  if (!prepared_.options.folders.rescue.empty() && !folder.empty())
    rescue = fs::path(prepared_.options.folders.rescue) / prepared_.places.name_of(folder);
  Observers& observers = prepared_.audience.observers();
  const auto warn = [&observers](std::string text) { observers.warn(std::move(text)); };
  const auto report_best = [&requests = prepared_.audience.requests()](const Best& best, const std::string& file,
                                                                       const std::string& why) {
    RequestEvent request{.kind = RequestKind::save, .by = kBestRule, .text = {}};
    if (why.empty()) {
      requests.complete(std::move(request), best.step, file);
    } else {
      requests.refuse(std::move(request), why);
    }
  };
  weights_ = std::make_unique<WeightsWriter>(
      prepared_.view(), WeightsWriter::Setting{.folder = folder,
                                               .rescue = rescue,
                                               .writes = !pipeline.run.folder.empty() && !prepared_.options.only_main,
                                               .reports_exports = pipeline.checkpoint.by_default,
                                               .metadata = [this] { return weights_metadata(prepared_); },
                                               .advise = [this](const Error& error) { return with_advice(error); },
                                               .warn = warn,
                                               .report_best = report_best});
  if (!prepared_.saves_checkpoints()) return;
  std::map<std::string, std::string> classes;
  if (prepared_.weights.from.fresh.empty()) classes = metadata_of(classes_from(prepared_.weights.metadata));
  checkpointer_ = std::make_unique<Checkpointer>(
      Checkpointer::Run{.pipeline = pipeline,
                        .places = prepared_.places,
                        .stages = saved_stages(prepared_.main()),
                        .steps_per_epoch = prepared_.main().data().steps_per_epoch(),
                        .metadata = std::move(classes),
                        .record = prepared_.record()},
      prepared_.view(), *weights_,
      Checkpointer::Listener{.warn = warn,
                             .report = [&observers](CheckpointEvent event) { observers.send(std::move(event)); },
                             .sync = [&observers] { observers.sync(); }});
  if (!prepared_.options.is_first()) return;
  checkpointer_->open(folder, prepared_.resume_point ? &*prepared_.resume_point : nullptr,
                      rescue.empty() ? rescue : rescue / "checkpoints");
}

void Runner::make_barriers() {
  Group* const group = prepared_.options.group;
  if (group == nullptr) return;
  prepared_.audience.share();
  for (std::size_t g = 0; g < prepared_.graphs.size(); ++g) {
    const bool counts = g == 0 && prepared_.main().trains();
    const auto channel = Group::kSteps + static_cast<std::uint32_t>(g);
    barriers_.push_back(std::make_unique<StepBarrier>(*group, channel, prepared_.audience.requests(), counts,
                                                      budget_of(*prepared_.builds[g]), g != 0));
  }
}

// Before the first start of a graph.
void Runner::watch_gates() {
  for (std::size_t g = 0; g < prepared_.graphs.size(); ++g) {
    Graph::Agree agree;  // null: this process is alone
    if (!barriers_.empty()) {
      agree = [barrier = barriers_[g].get()](Graph::StepReady ready, auto answer) {
        barrier->step_is_ready(std::move(ready), std::move(answer));
      };
    }
    if (g == 0 && prepared_.options.only_data) {
      agree = [](const Graph::StepReady& ready, const auto& answer) {
        Graph::StepAgreed agreed = Graph::StepAgreed::alone(ready);
        agreed.leave_out = true;
        answer(std::move(agreed));
      };
    }
    if (g == 0 && checkpointer_) agree = checkpointer_->watch(std::move(agree));
    prepared_.graphs[g]->on_step_ready(std::move(agree));
  }
}

// Writes the last weights, and waits for the last checkpoint. The run fails if its own folder does not accept one of them.
void Runner::save_results(Ended& ended) {
  if (!weights_) return;
  ended.weights_file = weights_->save_last(ended.step);
  std::string lost;
  ErrorKind kind = ErrorKind::run;
  try {
    if (checkpointer_) checkpointer_->finish();
  } catch (const Error& error) {
    if (prepared_.pipeline.checkpoint.by_default &&
        ended.signal == 0) {  // neither the file nor who will resume the run asks for it
      prepared_.audience.warn(error.what());
    } else {
      lost = error.what();
      kind = error.kind();
    }
    if (!lost.empty() && !ended.weights_file.empty()) lost += fmt::format("; the weights are in '{}'", ended.weights_file);
  }
  weights_->finish_best();
  const bool keeps_best = prepared_.pipeline.best && !folder().empty();
  if (const std::optional<Best> best = keeps_best ? weights_->best_there() : std::nullopt) {
    ended.best =
        fmt::format("'{}', {} = {:.4g} after step {}", weights_->best_path().string(), best->figure, best->value, best->step);
  }
  write_card(ended);
  if (!weights_->lost().empty()) {
    lost = weights_->lost() + (lost.empty() ? "" : "; ") + lost;
    kind = ErrorKind::run;
  }
  if (!lost.empty()) {
    const char* const advice =
        prepared_.options.folders.rescue.empty() ? "; --rescue FOLDER names another place, for the next time" : "";
    fail(kind, "{}{}", lost, advice);
  }
  if (!newest_checkpoint().empty()) ended.go_on = command_with(prepared_.options.commands.resume, "--resume", folder());
}

// Failures are only warnings: the weights are complete without the card.
void Runner::write_card(const Ended& ended) {
  if (ended.weights_file.empty()) return;
  try {
    OutputFile file((fs::path(ended.weights_file).parent_path() / "card.md").string(), OutputFile::Sync::later);
    file.write(model_card(run_, ended, {folder(), began_}));
    file.commit();
  } catch (const Error& error) {
    prepared_.audience.warn(fmt::format("card.md could not be written next to the weights: {}", error.what()));
  }
}

std::string Runner::command_with(const std::string& command, const char* option, const fs::path& folder) const {
  return fmt::format("{} {} {}", command.empty() ? shell_text({"pipeline-run", prepared_.pipeline.file}) : command, option,
                     shell_word(folder.string()));
}

Error Runner::with_checkpoint(const Error& error) const {
  const RunOptions& options = prepared_.options;
  const bool adds_command = options.is_first() && error.kind() != ErrorKind::usage;
  if (!adds_command || !prepared_.saves_checkpoints() || folder().empty()) return error;
  const fs::path rescued = checkpointer_ ? checkpointer_->rescued() : fs::path();
  if (!rescued.empty()) {  // it is in its run's folder, whatever the file sets
    const char* here = prepared_.pipeline.checkpoint.folder.empty() ? "--resume" : "--set checkpoint.folder= --resume";
    return {error.kind(), fmt::format("{}; to resume from '{}': {}", error.what(), rescued.string(),
                                      command_with(options.commands.resume, here, rescued.parent_path().parent_path()))};
  }
  const std::string newest = newest_checkpoint();
  if (newest.empty()) return {error.kind(), fmt::format("{}; the run has no checkpoint yet", error.what())};
  return {error.kind(), fmt::format("{}; the newest checkpoint is '{}'; to resume from it: {}", error.what(), newest,
                                    command_with(options.commands.resume, "--resume", folder()))};
}

Error Runner::with_advice(const Error& error) const {
  if (!prepared_.options.is_first()) return error;
  const RunParams& params = prepared_.pipeline.run;
  std::string text = error.what();
  if (params.on_nan == "skip" && wrong_number()) {
    text += fmt::format("; more than nan_limit = {} steps in a row were not finite", params.nan_limit);
  }
  text += "; " + newest_words(checkpointer_.get());
  if (!folder().empty()) {
    text += fmt::format("; {} names the layer where it begins",
                        command_with(prepared_.options.commands.explain, "--explain-nan", folder()));
  }
  return {error.kind(), std::move(text)};
}

}  // namespace millrace
