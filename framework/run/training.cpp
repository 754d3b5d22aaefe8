#include "run/training.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>

#include "base/out_of_memory.h"
#include "millrace/observer.h"
#include "run/beside.h"

namespace millrace {
namespace {

constexpr auto kPolling = std::chrono::milliseconds(50);
constexpr double kTick = 0.1;             // seconds
constexpr std::uint64_t kTrialSteps = 2;  // of each other graph, before the first epoch

}  // namespace

Training::Training(Parts parts)
    : parts_(parts),
      steps_per_epoch_(std::max<std::uint64_t>(parts.builds.front()->steps_per_epoch(), 1)),
      rules_(parts.pipeline, parts.options.group, parts.requests),
      begun_with_(parts.first_step),
      best_waits_(parts.best_waits),
      reported_(has_reports(parts.builds.front()->plan())),
      done_(parts.first_step) {
  for (const auto& build : parts_.builds) every_.push_back(build->plan().when);
}

RunResult Training::run() {
  tell_start();
  doing("the first step");
  Graph& graph = *parts_.graphs.front();
  if (parts_.builds.front()->trains()) {
    if (parts_.resumed != nullptr) go_on_from(*parts_.resumed);
    parts_.requests.honour_factors(parts_.first_step);
    graph.on_step_done([this](std::uint64_t step) { return step_done(step); });
    try_other_graphs();
    finish_boundary();
    if (stop_requested()) {  // agreed upon, so all processes end here
      end_requests();
      return result_;
    }
    doing("the first step");
    resumed_ = Clock::now();
    start(0, parts_.first_step, parts_.total_steps);
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
    if (error_) throw *error_;
    look_at_numbers();
    if (stop_ && checkpointed_ != done_) {
      training_seconds_ += seconds_since(resumed_);
      checkpoint(done_, false);
    }
  } else {
    run_pass(0, parts_.first_step, parts_.total_steps);
  }
  end_requests();
  return result_;
}

void Training::start(std::size_t graph, std::uint64_t first, std::uint64_t last) {
  if (!parts_.agreements.empty()) parts_.agreements[graph]->start(first);
  parts_.graphs[graph]->start(first, last);
}

void Training::end_requests() {
  result_.epoch = static_cast<double>(done_) / static_cast<double>(steps_per_epoch_);
  result_.step = done_;
  result_.stopped = stop_ && done_ < parts_.total_steps;
  if (stop_) {
    parts_.requests.honour(*stop_, done_, stop_->text);
    parts_.requests.honour_stops(done_);
  } else if (parts_.shortened && done_ == parts_.total_steps) {
    result_.stopped = true;
    parts_.requests.honour({.kind = RequestKind::stop, .by = StopRules::kName, .text = {}}, done_,
                           fmt::format("max_steps = {} are done", done_));
  }
  if (checkpointed_ == done_) {
    while (auto request = parts_.requests.take(RequestKind::checkpoint, UINT64_MAX)) {
      parts_.requests.honour(std::move(*request), done_);
    }
  }
  parts_.requests.refuse_all("the run was over");
}

bool Training::step_done(std::uint64_t step) {
  parts_.log.step_done(step);
  const std::lock_guard lock(mutex_);
  done_ = step + 1;
  parts_.requests.honour_factors(done_);
  if (in_trouble()) {
    changed_.notify_all();
    return false;
  }
  const bool asked = parts_.requests.waits(RequestKind::save, done_) || parts_.requests.waits(RequestKind::validate, done_) ||
                     parts_.requests.waits(RequestKind::checkpoint, done_);
  if (asked || is_boundary(done_)) {
    boundary_ = done_;
  } else {
    held_by_ = parts_.observers.behind(Observers::kMostBehind);
    if (held_by_.empty()) return true;
  }
  changed_.notify_all();
  return false;
}

bool Training::is_boundary(std::uint64_t done) const {
  if (done == parts_.total_steps || done % steps_per_epoch_ == 0) return true;
  if (parts_.checkpoint && parts_.pipeline.checkpoint.due(done, steps_per_epoch_, parts_.total_steps)) return true;
  for (std::size_t g = 1; g < every_.size(); ++g) {
    if (every_[g].due(done, steps_per_epoch_, parts_.total_steps)) return true;
  }
  return false;
}

void Training::wait_for_main_graph() {
  std::optional<Error> error;
  try {
    parts_.graphs.front()->wait();
  } catch (...) {
    error = current_error();
  }
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  drained_ = true;
  changed_.notify_all();
}

void Training::loop() {
  Graph& graph = *parts_.graphs.front();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait_for(lock, kPolling, [this] { return boundary_ != 0 || drained_ || in_trouble(); });
    const std::uint64_t boundary = std::exchange(boundary_, 0);
    const bool drained = drained_;
    const bool released = !held_by_.empty() && parts_.observers.behind(Observers::kMostBehind / 2).empty();
    if (released) held_by_.clear();
    const std::string held_by = held_by_;
    lock.unlock();
    look_at_numbers();
    if (released) graph.resume();
    if (boundary != 0) {
      at_boundary(boundary);
      if (boundary < parts_.total_steps && !stop_) {
        resumed_ = Clock::now();
        graph.resume();
      } else {
        graph.stop();
        graph.resume();
      }
    }
    if (stop_requested()) graph.stop();
    ask_for_checkpoints();
    if (held_by.empty()) watch(graph, stall_);
    if (parts_.options.on_tick) parts_.options.on_tick(graph.figures());
    if (seconds_since(ticked_) >= kTick) tell_tick(held_by.empty() ? "" : "observer " + held_by);
    lock.lock();
    if (drained && boundary_ == 0) return;
  }
}

bool Training::stop_requested() {
  if (parts_.builds.front()->trains()) rules_.look_at_clock(parts_.observers.elapsed_seconds());
  if (!signalled_ && parts_.options.stop_signal) {
    const int signal = parts_.options.stop_signal->load();
    signalled_ = signal != 0;
    if (signalled_) parts_.requests.ask({.by = fmt::format("signal {}", signal), .signal = signal, .text = {}});
  }
  std::uint64_t done = 0;
  {
    const std::lock_guard lock(mutex_);
    done = done_;
  }
  if (!stop_) stop_ = parts_.requests.take(RequestKind::stop, done);
  if (stop_) result_.signal = stop_->signal;
  return stop_.has_value();
}

// Trials and profiles look for themselves.
bool Training::in_trouble() const {
  return parts_.log.numbers().in_trouble() && parts_.builds.front()->trains() && !parts_.options.only_main;
}

// What has become of such a number is no longer worth a validation or a checkpoint.
void Training::look_at_numbers() const {
  if (in_trouble()) fail(ErrorKind::run, "{}", parts_.log.numbers().trouble()->text());
}

Observers::Waiting Training::waiting() {
  return [this](const std::string& observer) {
    doing("observer " + observer);
    tell_tick("observer " + observer);
  };
}

void Training::doing(std::string what) const {
  if (parts_.options.activity) parts_.options.activity->set(std::move(what), true);
}

void Training::watch(const Graph& graph, StallWatch& stall) {
  if (stop_) return doing("the steps under way: " + waits_for(graph));
  if (const std::string text = stall.look(graph); !text.empty()) parts_.log.warn(text);
}

void Training::at_boundary(std::uint64_t done) {
  doing(fmt::format("devices, at the end of step {}", done));
  for (const auto& replica : parts_.replicas) replica->finish();  // the reports of these steps are on their way
  training_seconds_ += seconds_since(resumed_);                   // with what devices still had to do
  await_steps(done);
  if (done % steps_per_epoch_ == 0 || done == parts_.total_steps) end_epoch((done - 1) / steps_per_epoch_, done);
  look_at_numbers();
  parts_.observers.flush(waiting());
  run_other_graphs(done);
  end_boundary(done);
}

// Before another step begins: the weights are those that were validated.
void Training::end_boundary(std::uint64_t done) {
  const StopRules::Best best = rules_.conclude(done, done < parts_.total_steps);
  save_best(done, best.weights);
  stop_requested();  // a process alone stops here; several stop at the step that they agree upon
  honour_saves(done);
  checkpoint(done, best.checkpoint);
}

void Training::run_other_graphs(std::uint64_t done) {
  std::vector<RequestEvent> asked;
  while (auto request = parts_.requests.take(RequestKind::validate, done)) asked.push_back(std::move(*request));
  std::vector<std::size_t> due;
  for (std::size_t g = 1; g < parts_.graphs.size(); ++g) {
    if (!asked.empty() || every_[g].due(done, steps_per_epoch_, parts_.total_steps)) due.push_back(g);
  }
  run_passes(due);
  std::erase_if(passes_left_, [&](std::size_t g) { return !every_[g].due(done, steps_per_epoch_, parts_.total_steps); });
  for (RequestEvent& request : asked) {
    if (parts_.graphs.size() == 1 || stop_) {
      parts_.requests.refuse(std::move(request), stop_ ? "the run was stopped first" : "the pipeline has no other graph");
    } else {
      parts_.requests.honour(std::move(request), done);
    }
  }
}

void Training::run_passes(const std::vector<std::size_t>& graphs) {
  passes_left_.clear();
  bool exchanged = false;
  for (const std::size_t g : graphs) {
    if (!stop_requested()) {
      if (!std::exchange(exchanged, true)) exchange_weights();
      try {
        if (run_pass(g, 0, parts_.builds[g]->steps_per_epoch())) continue;
      } catch (...) {
        const Error error = current_error();
        exchange_weights();
        throw with_weights(error);
      }
    }
    passes_left_.push_back(g);
  }
  if (exchanged) exchange_weights();
}

// What was trained outlives a mistake in another graph. Of several processes each has an error of its own, and none waits for the
// others here.
Error Training::with_weights(const Error& error) {
  const bool can_save = parts_.agreements.empty() && error.kind() != ErrorKind::device && error.message() != kOutOfMemory;
  if (!can_save || done_ == begun_with_) return error;
  try {
    const std::string file = parts_.save(fmt::format("weights-step-{}.safetensors", done_));
    if (!file.empty()) return {error.kind(), fmt::format("{}; the weights of step {} are in '{}'", error.what(), done_, file)};
  } catch (const Error&) {  // the first error counts
  }
  return error;
}

void Training::honour_saves(std::uint64_t done) {
  while (auto request = parts_.requests.take(RequestKind::save, done)) {
    save(std::move(*request), fmt::format("weights-step-{}.safetensors", done), done);
  }
}

void Training::save(RequestEvent request, const std::string& name, std::uint64_t done) {
  try {
    const std::string file = parts_.save(name);
    if (file.empty()) {
      parts_.requests.refuse(std::move(request), "the run has no folder");
    } else {
      parts_.requests.honour(std::move(request), done, file);
    }
  } catch (const Error& error) {
    parts_.requests.refuse(std::move(request), error.what());
  }
}

void Training::save_best(std::uint64_t done, bool is_new) {
  if (is_new) best_waits_ = done;
  if (!best_waits_) return;
  RequestEvent request{.kind = RequestKind::save, .by = StopRules::kBest, .text = {}};
  try {
    const BestSaved saved = parts_.save_best(is_new ? std::optional(rules_.best_found()) : std::nullopt);
    if (saved.waits) return;
    if (!saved.file.empty()) {
      rules_.best_is_saved();
      parts_.requests.honour(std::move(request), *best_waits_, saved.file);
    }
  } catch (const Error& error) {
    parts_.requests.refuse(std::move(request), error.what());
  }
  best_waits_.reset();
}

void Training::exchange_weights() {
  if (parts_.evaluated.empty()) return;
  for (const auto& replica : parts_.replicas) replica->exchange(parts_.evaluated);
}

// A mistake in another graph is found before an epoch was computed for nothing. The weights are those that the run starts from,
// and observers are told nothing. Predictions are to be written once, so graphs that make them are not tried.
void Training::try_other_graphs() {
  if (parts_.first_step >= parts_.total_steps) return;
  parts_.log.rehearse(true);
  for (std::size_t g = 1; g < parts_.graphs.size() && !stop_requested(); ++g) {
    const GraphBuild& build = *parts_.builds[g];
    if (!build.plan().before || has_predictions(build.plan())) continue;
    doing(fmt::format("the first batches of [{}]", build.plan().name));
    const std::uint64_t steps = std::min(kTrialSteps, build.steps_per_epoch());
    try {
      drive(g, 0, steps);
    } catch (...) {
      parts_.log.tell_rehearsed();
      throw current_error().in(fmt::format("before the first step, [{}] was tried", build.plan().name));
    }
    if (!parts_.agreements.empty() && has_reports(build.plan()) && !stop_) await_others(build.plan().name, 0, steps);
    take_sums(build.plan().name, 0, 0);
  }
  parts_.log.rehearse(false);
}

void Training::drive(std::size_t g, std::uint64_t first, std::uint64_t last) {
  Graph& graph = *parts_.graphs[g];
  StallWatch stall;
  start(g, first, last);
  std::future<void> drained;
  start_beside(graph, [&] { drained = std::async(std::launch::async, [&graph] { graph.wait(); }); });
  try {
    while (drained.wait_for(kPolling) != std::future_status::ready) {
      if (stop_requested()) graph.stop();
      watch(graph, stall);
      if (g == 0 && parts_.options.on_tick) parts_.options.on_tick(graph.figures());
    }
  } catch (...) {
    graph.stop();
    throw;
  }
  drained.get();
}

bool Training::run_pass(std::size_t g, std::uint64_t first, std::uint64_t last) {
  const std::string& name = parts_.builds[g]->plan().name;
  const std::uint64_t skipped = parts_.log.skipped_samples(name);
  const auto start = Clock::now();
  doing(fmt::format("[{}]", name));
  drive(g, first, last);
  if (stop_) return false;  // half a pass is no figure
  const double seconds = seconds_since(start);
  const bool joint = !parts_.agreements.empty() && has_reports(parts_.builds[g]->plan());
  if (joint) await_others(name, first / parts_.builds[g]->steps_per_epoch(), last - first);
  parts_.log.samples_done(name, UINT64_MAX, 0);
  end_pass(g, first, last, seconds, parts_.log.skipped_samples(name) - skipped);
  return true;
}

}  // namespace millrace
