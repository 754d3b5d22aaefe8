#include "run/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "checkpoint/run_folder.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "run/beside.h"
#include "run/stopwatch.h"
#include "run/weight_comparison.h"

namespace millrace {

Training::Training(const RunContext& run)
    : run_(run),
      rules_(run_.pipeline(), run_.options().group, run_.requests()),
      progress_(run_.steps().first),
      stop_(run_, rules_, progress_),
      meter_(run_, rules_, progress_),
      others_(run_, stop_, meter_),
      saves_(run_, stop_, rules_) {}

RunResult Training::run() {
  tell_start();
  run_.doing("the first step");
  if (run_.main().trains()) {
    train();
  } else {
    others_.run_main();
  }
  end_requests();

  const std::uint64_t done = progress_.done();
  RunResult result;
  result.epoch = static_cast<double>(done) / static_cast<double>(meter_.steps_per_epoch());
  result.step = done;
  result.stopped = stop_.found() ? done < run_.steps().end : has_done_max_steps();
  result.signal = stop_.found() ? stop_.found()->signal : 0;
  result.first_step = meter_.begun_with();
  result.measured = meter_.end_run();
  if (rules_.has_best()) result.best_found = rules_.best_found();
  return result;
}

void Training::tell_start() {
  const RunParams& params = run_.pipeline().run;
  RunStart event;
  event.name = params.name;
  event.file = run_.pipeline().file;
  event.folder = params.folder.empty() ? "" : run_.log().output_folder();
  event.graph = run_.main().plan().name;
  event.seed = params.seed;
  event.epochs = params.epochs;
  event.first_step = run_.steps().first + 1;
  event.steps = run_.steps().end;
  event.steps_per_epoch = meter_.steps_per_epoch();
  event.replicas = run_.prepared.replicas.all();
  if (const auto& from = run_.prepared.resume_point) {
    event.resumed = true;
    event.checkpoint_step = from->checkpoint.state.step;
    event.checkpoint = from->path;
  }
  run_.observers().start(std::move(event), [this](const std::string& observer) { run_.doing("observer " + observer); });
  run_.prepared.audience.listen();
}

void Training::train() {
  if (const auto& from = run_.prepared.resume_point) restore(from->checkpoint.state);
  run_.requests().complete_factors(run_.steps().first);
  Graph& graph = run_.graph(0);
  graph.on_step_done([this](std::uint64_t step) {
    run_.found().steps.done(step);
    if (run_.options().group != nullptr) run_.doing(fmt::format("step {}", step + 2));  // for others, should it be lost
    progress_.step_done(step + 1, [this](std::uint64_t done) {
      const Progress::Gate gate = gate_behind(done);
      if (!gate.is_open) run_.graph(0).hold();
      return gate;
    });
  });
  others_.try_all();
  finish_boundary();
  if (stop_.look()) {  // agreed upon, so all processes end here
    if (!is_over_) close(run_.steps().first);
    return;
  }
  is_over_ = false;
  point_latest();
  run_.doing("the first step");
  meter_.goes_on();
  start_graph(run_, 0, run_.steps().first, run_.steps().end);
  const Activity::Status status(run_.options().hooks.activity, [this] { return status_of(run_, 0); });
  std::thread waiter;
  start_beside(graph, [&] { waiter = std::thread([this] { wait_for_main_graph(); }); });
  try {
    loop();
  } catch (...) {
    graph.stop();
    graph.resume();
    waiter.join();
    throw;
  }
  waiter.join();
  meter_.stands_still();
  if (const std::optional<Error> error = progress_.error()) throw *error;
  look_at_numbers();
  const std::uint64_t done = progress_.done();
  if (!stop_.found()) return;
  close(done);
  if (!saves_.has_checkpoint(done)) checkpoint(done, false);
}

// What [stop] or an observer ends is over, so it is evaluated as at its last step, and may be the best there. What a signal ends
// will go on.
void Training::close(std::uint64_t done) {
  if (stop_.found()->signal != 0 || done == 0) return;
  if (done > run_.steps().first) {
    run_.doing(fmt::format("devices, at the end of step {}", done));
    for (const auto& replica : run_.replicas()) replica->finish();
    meter_.await_steps(done);
    look_at_numbers();
    run_.observers().flush(waiting());
  }
  stop_.begin_closing();
  run_others([&] { others_.run_ends(done); });
  look_at_numbers();
  const bool is_best = rules_.conclude(done, false);
  saves_.save_best(is_best);
  run_others([&] { others_.run_closing(better_than(done), true); });
  stop_.end_closing();
  look_at_numbers();
  is_over_ = stop_.found()->signal == 0;
  if (is_over_) saves_.forget_checkpoint();  // of this step: it does not say so
  if (is_best || is_over_) checkpoint(done, is_best || (rules_.has_best() && rules_.best_found().step == done));
}

void Training::restore(const SavedState& state) {
  rules_.restore(state.watched);
  if (state.rate_factor != 1) run_.requests().set_factor(run_.steps().first, state.rate_factor);
  epoch_is_over_ = meter_.restore(state);
  is_over_ = state.left.run_is_over;
  others_.restore_left(state.left.passes);
  const bool is_same_step = state.step == run_.steps().first;  // not with batches of another size
  if (others_.left().empty() && is_same_step) saves_.restore(state.step);
}

// What the run that was stopped did not come to. Larger batches may leave nothing to do of its epoch, which then ends here.
void Training::finish_boundary() {
  const std::uint64_t done = run_.steps().first;
  if ((others_.left().empty() && !epoch_is_over_) || stop_.look()) return;
  if (epoch_is_over_) meter_.end_epoch((done - 1) / meter_.steps_per_epoch(), done);
  run_others([&] { others_.run_left(done, epoch_is_over_); });
  end_boundary(done);
}

// Not before a run trains: what is refused before has no weights. A user who resumes a run by its name may mean an older one.
void Training::point_latest() const {
  const RunOptions& options = run_.options();
  const bool has_folder = !run_.pipeline().run.folder.empty() && !options.only_main && options.is_first();
  const bool is_named = options.resume.run && !options.resume.run->empty();
  if (!has_folder || (run_.prepared.resume_point && is_named)) return;
  if (std::string why = point_latest_to(run_.log().output_folder()); !why.empty()) run_.prepared.audience.warn(std::move(why));
}

Progress::Gate Training::gate_behind(std::uint64_t done) {
  run_.requests().complete_factors(done);
  if (in_trouble()) return {.is_open = false};
  for (const RequestKind kind : {RequestKind::save, RequestKind::validate, RequestKind::checkpoint}) {
    if (run_.requests().waits(kind, done)) return {.is_open = false, .is_boundary = true};
  }
  if (is_boundary(done)) return {.is_open = false, .is_boundary = true};
  const std::string held_by = run_.observers().behind(Observers::kMostBehind);
  return {.is_open = held_by.empty(), .held_by = held_by};
}

bool Training::is_boundary(std::uint64_t done) const {
  return done == run_.steps().end || done % meter_.steps_per_epoch() == 0 || saves_.is_due(done) || others_.are_due(done) ||
         compares_weights_after(run_, done);
}

void Training::wait_for_main_graph() {
  std::optional<Error> error;
  try {
    run_.graph(0).wait();
  } catch (...) {
    error = current_error();
  }
  progress_.drained(std::move(error));
}

void Training::loop() {
  Graph& graph = run_.graph(0);
  while (true) {
    Progress::News news = progress_.wait(run_.options().look_period, [this] { return in_trouble(); });
    const bool released = !news.held_by.empty() && run_.observers().behind(Observers::kMostBehind / 2).empty();
    if (released) {
      progress_.release();
      news.held_by.clear();
    }
    look_at_numbers();
    if (released) graph.resume();
    if (news.boundary != 0) {
      at_boundary(news.boundary);
      if (news.boundary < run_.steps().end && !stop_.found()) {
        meter_.goes_on();
      } else {
        graph.stop();
      }
      graph.resume();
    }
    if (stop_.look()) graph.stop();
    saves_.ask_for_checkpoints();
    if (news.held_by.empty()) watch_graph(run_, 0, stall_, stop_.found().has_value());
    if (run_.options().hooks.on_tick) run_.options().hooks.on_tick(graph.figures());
    if (meter_.telemetry()) meter_.tick(news.held_by.empty() ? "" : "observer " + news.held_by);
    if (!news.is_drained || progress_.is_at_boundary()) continue;
    meter_.telemetry(true);
    return;
  }
}

void Training::at_boundary(std::uint64_t done) {
  run_.doing(fmt::format("devices, at the end of step {}", done));
  for (const auto& replica : run_.replicas()) replica->finish();  // the reports of these steps are on their way
  meter_.stands_still();                                          // with what devices still had to do
  meter_.await_steps(done);
  const std::uint64_t an_epoch = meter_.steps_per_epoch();
  if (done % an_epoch == 0 || done == run_.steps().end) {
    meter_.end_epoch((done - 1) / an_epoch, done);
    slow_replica_.look(run_);
  }
  look_at_numbers();
  if (compares_weights_after(run_, done)) {
    run_.doing(fmt::format("comparing the weights of the replicas, after step {}", done));
    stands_still_for("compare_replicas", [&] { require_same_weights(run_, done); });
  }
  stands_still_for("observers", [&] { run_.observers().flush(waiting()); });
  run_others([&] { others_.run_due(done); });
  end_boundary(done);
}

// Before another step begins: the weights are those that were validated.
void Training::end_boundary(std::uint64_t done) {
  look_at_numbers();
  const bool is_best = rules_.conclude(done, done < run_.steps().end);
  saves_.save_best(is_best);
  run_others([&] { others_.run_closing(better_than(done), done == run_.steps().end); });
  stop_.look();  // a process alone stops here; several stop at the step that they agree upon
  saves_.save_asked(done);
  checkpoint(done, is_best);
}

// The best weights so far, where this process writes them and they are not those of this step.
std::optional<Best> Training::better_than(std::uint64_t done) const {
  if (!run_.options().is_first() || run_.pipeline().run.folder.empty()) return std::nullopt;
  if (!rules_.has_best() || rules_.best_found().step == done) return std::nullopt;
  return rules_.best_found();
}

void Training::run_others(const std::function<void()>& passes) {
  try {
    passes();
  } catch (...) {
    const Error error = current_error();
    const std::uint64_t done = progress_.done();
    if (done == meter_.begun_with()) throw error;
    throw saves_.with_weights(error, done);
  }
}

void Training::stands_still_for(const char* what, const std::function<void()>& work) {
  Stopwatch watch;
  watch.start();
  work();
  meter_.stood_still(what, watch.seconds());
}

void Training::checkpoint(std::uint64_t done, bool best) {
  stands_still_for("checkpoint", [&] { saves_.checkpoint(done, best, waiting(), [&] { return state(done); }); });
}

SavedState Training::state(std::uint64_t done) {
  const GraphBuild& main = run_.main();
  SavedState state;
  state.step = done;
  state.epoch = done / meter_.steps_per_epoch();
  state.step_of_epoch = done % meter_.steps_per_epoch();
  state.first_step = meter_.begun_with();
  state.seconds = run_.observers().elapsed_seconds();
  state.rate_factor = run_.requests().factor(done);
  state.left.passes = others_.left();
  state.left.run_is_over = is_over_;
  state.watched = rules_.state();
  state.batch_size = main.data().batch.size;
  run_.found().bad_samples.done(main.plan().name, state.epoch, state.step_of_epoch * main.data().batch.size);
  run_.found().bad_samples.save(state);
  if (state.step_of_epoch > 0) state.so_far = meter_.epoch_so_far(done);
  return state;
}

void Training::end_requests() {
  const std::uint64_t done = progress_.done();
  if (stop_.found()) {
    run_.requests().complete(*stop_.found(), done, stop_.found()->text);
    run_.requests().complete_stops(done);
  } else if (has_done_max_steps()) {
    run_.requests().complete({.kind = RequestKind::stop, .by = StopRules::kName, .text = {}}, done, "stop.max_steps");
  }
  saves_.complete_checkpoints(done);
  run_.requests().refuse_all("the run was over");
}

bool Training::has_done_max_steps() const { return run_.steps().is_shortened() && progress_.done() == run_.steps().end; }

// Trials and profiles look for themselves.
bool Training::in_trouble() const {
  return run_.found().numbers.in_trouble() && run_.main().trains() && !run_.options().only_main;
}

// What has become of such a number is no longer worth a validation or a checkpoint.
void Training::look_at_numbers() const {
  if (in_trouble()) fail(ErrorKind::run, "{}", run_.found().numbers.trouble()->text());
}

Observers::Waiting Training::waiting() {
  return [this](const std::string& observer) {
    run_.doing("observer " + observer);
    meter_.tick("observer " + observer);
  };
}

}  // namespace millrace
