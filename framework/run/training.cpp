#include "run/training.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>

#include "millrace/run_events.h"
#include "run/check.h"

namespace millrace {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr double kTick = 0.1;           // seconds
constexpr double kReportPatience = 10;  // seconds for the reports of steps that devices have done

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Who the run waits for, from what the stages did: the data stages when the gate had no batch, else the training step.
std::string who_is_waited_for(const Graph::Figures& now) {
  if (now.waited_for_data_seconds <= now.waited_for_step_seconds) return "the training step";
  std::string slowest = "data";
  double most = 0;
  for (const auto& stage : now.stages) {
    if (stage.replica < 0 && stage.busy_seconds > most) {
      most = stage.busy_seconds;
      slowest = "data (" + stage.name + ")";
    }
  }
  return slowest;
}

}  // namespace

Training::Training(Parts parts)
    : parts_(parts),
      steps_per_epoch_(std::max<std::uint64_t>(parts.builds.front()->steps_per_epoch(), 1)),
      reported_(has_reports(parts.builds.front()->plan())),
      done_(parts.first_step) {
  for (const auto& build : parts_.builds) every_.push_back(build->plan().when);
}

RunResult Training::run() {
  tell_start();
  doing("the first step");
  Graph& graph = *parts_.graphs.front();
  if (parts_.builds.front()->trains()) {
    parts_.requests.honour_factors(parts_.first_step);
    graph.on_step_done([this](std::uint64_t step) { return step_done(step); });
    resumed_ = Clock::now();
    start(0, parts_.first_step, parts_.total_steps);
    std::thread waiter([this] { wait_for_main_graph(); });
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

void Training::tell_start() {
  const RunParams& run = parts_.pipeline.run;
  RunStart event;
  event.name = run.name;
  event.file = parts_.pipeline.file;
  event.folder = parts_.log.folder();
  event.graph = parts_.builds.front()->plan().name;
  event.seed = run.seed;
  event.epochs = run.epochs;
  event.first_step = parts_.first_step + 1;
  event.steps = parts_.total_steps;
  event.steps_per_epoch = steps_per_epoch_;
  event.replicas = parts_.all_replicas;
  parts_.observers.start(std::move(event), [this](const std::string& observer) { doing("observer " + observer); });
  parts_.started();
}

void Training::end_requests() {
  result_.epoch = static_cast<double>(done_) / static_cast<double>(steps_per_epoch_);
  result_.step = done_;
  result_.stopped = stop_ && done_ < parts_.total_steps;
  if (stop_) {
    parts_.requests.honour(*stop_, done_);
    parts_.requests.honour_stops(done_);
  }
  parts_.requests.refuse_all("the run was over");
}

bool Training::step_done(std::uint64_t step) {
  parts_.log.step_done(step);
  const std::lock_guard lock(mutex_);
  done_ = step + 1;
  parts_.requests.honour_factors(done_);
  const bool asked = parts_.requests.waits(RequestKind::save, done_) || parts_.requests.waits(RequestKind::validate, done_);
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
    changed_.wait_for(lock, kLook, [this] { return boundary_ != 0 || drained_; });
    const std::uint64_t boundary = std::exchange(boundary_, 0);
    const bool drained = drained_;
    const bool released = !held_by_.empty() && parts_.observers.behind(Observers::kMostBehind / 2).empty();
    if (released) held_by_.clear();
    const std::string held_by = held_by_;
    lock.unlock();
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
    if (held_by.empty()) watch(graph, stall_);
    if (parts_.options.on_tick) parts_.options.on_tick(graph.figures());
    if (seconds_since(ticked_) >= kTick) tell_tick(held_by.empty() ? "" : "observer " + held_by);
    lock.lock();
    if (drained && boundary_ == 0) return;
  }
}

bool Training::stop_requested() {
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
  if (done % steps_per_epoch_ == 0 || done == parts_.total_steps) end_epoch((done - 1) / steps_per_epoch_, done);
  parts_.observers.flush(waiting());
  run_other_graphs(done);
  honour_saves(done);
}

void Training::run_other_graphs(std::uint64_t done) {
  std::vector<RequestEvent> asked;
  while (auto request = parts_.requests.take(RequestKind::validate, done)) asked.push_back(std::move(*request));
  bool exchanged = false;
  for (std::size_t g = 1; g < parts_.graphs.size() && !stop_requested(); ++g) {
    if (asked.empty() && !every_[g].due(done, steps_per_epoch_, parts_.total_steps)) continue;
    if (!std::exchange(exchanged, true)) exchange_weights();
    run_pass(g, 0, parts_.builds[g]->steps_per_epoch());
  }
  if (exchanged) exchange_weights();
  for (RequestEvent& request : asked) {
    if (parts_.graphs.size() == 1 || stop_) {
      parts_.requests.refuse(std::move(request), stop_ ? "the run was stopped first" : "the pipeline has no other graph");
    } else {
      parts_.requests.honour(std::move(request), done);
    }
  }
}

void Training::honour_saves(std::uint64_t done) {
  while (auto request = parts_.requests.take(RequestKind::save, done)) {
    try {
      const std::string file = parts_.save(fmt::format("weights-step-{}.safetensors", done));
      if (file.empty()) {
        parts_.requests.refuse(std::move(*request), "the run has no folder");
      } else {
        parts_.requests.honour(std::move(*request), done, file);
      }
    } catch (const Error& error) {
      parts_.requests.refuse(std::move(*request), error.what());
    }
  }
}

void Training::exchange_weights() {
  if (parts_.evaluated.empty()) return;
  for (const auto& replica : parts_.replicas) replica->exchange(parts_.evaluated);
}

void Training::end_epoch(std::uint64_t epoch, std::uint64_t done) {
  const std::string& name = parts_.builds.front()->plan().name;
  const std::uint64_t first = std::max(epoch * steps_per_epoch_, parts_.first_step);
  const RunLog::Sums sums = await_reports(name, epoch, done - first);
  const GraphBuild& build = *parts_.builds.front();
  const bool known = sums.steps > 0;
  const double images = known ? sums.samples : static_cast<double>(build.samples_until(done) - build.samples_until(first));
  EpochEvent event;
  event.graph = name;
  event.epoch = epoch + 1;
  event.step = done;
  event.epochs = parts_.pipeline.run.epochs;
  event.reported = known;
  event.figures = sums.figures();
  event.images_per_second = images / std::max(training_seconds_, 1e-9);
  event.seconds = training_seconds_;
  event.stream_hash = sums.stream_hash;
  event.resident_bytes = resident_bytes();
  parts_.observers.tell(std::move(event));
  parts_.log.forget(name, epoch);
  training_seconds_ = 0;
}

// The last reports are a matter of microseconds. A stage that never makes them must not keep the run.
RunLog::Sums Training::await_reports(const std::string& name, std::uint64_t epoch, std::uint64_t expected) {
  const auto start = Clock::now();
  RunLog::Sums sums = parts_.log.sums(name, epoch);
  while (reported_ && sums.steps < expected) {
    {
      const std::lock_guard lock(mutex_);
      if (drained_) break;
    }
    if (seconds_since(start) > kReportPatience) {
      parts_.log.warn(fmt::format("[{}]: {} of {} steps of epoch {} were reported within {} s; figures leave out the others",
                                  name, sums.steps, expected, epoch + 1, kReportPatience));
      reported_ = sums.steps > 0;
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    sums = parts_.log.sums(name, epoch);
  }
  return sums;
}

// Of a pass that this process has done: the other processes' reports are on their way.
void Training::await_others(const std::string& name, std::uint64_t epoch, std::uint64_t expected) {
  const auto start = Clock::now();
  while (parts_.log.sums(name, epoch).steps < expected && seconds_since(start) < kReportPatience) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

RunLog::Sums Training::take_sums(const std::string& name, std::uint64_t first_epoch, std::uint64_t last_epoch) {
  RunLog::Sums all;
  for (std::uint64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
    all.add(parts_.log.sums(name, epoch));
    parts_.log.forget(name, epoch);
  }
  return all;
}

void Training::run_pass(std::size_t g, std::uint64_t first, std::uint64_t last) {
  const GraphBuild& build = *parts_.builds[g];
  const std::string& name = build.plan().name;
  const std::uint64_t done = done_;  // the main graph stands still
  const std::uint64_t skipped = parts_.log.skipped_samples(name);
  const auto start = Clock::now();
  Graph& graph = *parts_.graphs[g];
  doing(fmt::format("[{}]", name));
  StallWatch stall;
  this->start(g, first, last);
  std::future<void> drained = std::async(std::launch::async, [&graph] { graph.wait(); });
  while (drained.wait_for(kLook) != std::future_status::ready) {
    if (stop_requested()) graph.stop();
    watch(graph, stall);
    if (g == 0 && parts_.options.on_tick) parts_.options.on_tick(graph.figures());
  }
  drained.get();
  if (stop_) return;  // half a pass is no figure
  const double seconds = seconds_since(start);
  const std::uint64_t an_epoch = build.steps_per_epoch();
  if (!parts_.agreements.empty() && has_reports(build.plan())) await_others(name, first / an_epoch, last - first);
  const RunLog::Sums sums = take_sums(name, first / an_epoch, last / an_epoch);
  const std::uint64_t left_out = parts_.log.skipped_samples(name) - skipped;
  PassEvent event;
  event.graph = name;
  event.epoch = static_cast<double>(done) / static_cast<double>(steps_per_epoch_);
  event.step = done;
  event.reported = sums.steps > 0;
  event.samples =
      event.reported ? sums.samples : static_cast<double>(build.samples_until(last) - build.samples_until(first) - left_out);
  event.figures = sums.figures();
  event.seconds = seconds;
  event.images_per_second = event.samples / seconds;
  event.stream_hash = sums.stream_hash;
  parts_.observers.tell(std::move(event));
  if (sums.steps > 0) result_.last_validation = sums;
}

void Training::tell_tick(const std::string& waits_for) {
  ticked_ = Clock::now();
  const GraphBuild& build = *parts_.builds.front();
  TickEvent event;
  {
    const std::lock_guard lock(mutex_);
    event.step = done_;
  }
  if (event.step == parts_.total_steps && waits_for.empty()) return;  // what there is to say is said
  event.graph = build.plan().name;
  event.steps = parts_.total_steps;
  event.epochs = parts_.pipeline.run.epochs;
  event.epoch = static_cast<double>(event.step) / static_cast<double>(steps_per_epoch_);
  const std::uint64_t epoch = event.step / steps_per_epoch_;
  const RunLog::Sums sums = parts_.log.sums(build.plan().name, epoch);
  event.figures = sums.figures();
  const double seconds = training_seconds_ + seconds_since(resumed_);
  const std::uint64_t steps = event.step - std::max(epoch * steps_per_epoch_, parts_.first_step);
  if (steps > 0) {
    event.images_per_second = sums.samples / seconds;
    event.seconds_left = seconds / static_cast<double>(steps) * static_cast<double>(event.steps - event.step);
  }
  const Graph::Figures figures = parts_.graphs.front()->figures();
  event.waited_for_data_seconds = figures.waited_for_data_seconds;
  event.waited_for_step_seconds = figures.waited_for_step_seconds;
  event.waits_for = waits_for.empty() ? who_is_waited_for(figures) : waits_for;
  parts_.observers.tell(std::move(event));
}

}  // namespace millrace
