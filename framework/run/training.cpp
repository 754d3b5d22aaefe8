#include "run/training.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>

#include "millrace/run_events.h"
#include "run/check.h"

namespace millrace {
namespace {

constexpr auto kTick = std::chrono::milliseconds(50);
constexpr std::size_t kFiguresShown = 2;  // of training, on a line that is renewed
constexpr double kReportPatience = 10;    // seconds for the reports of steps that devices have done

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Who the run waits for, from what the stages did: the data stages when the gate had no batch, else the training step.
std::string waits_for(const Graph::Figures& now) {
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
      progress_(parts.options.quiet),
      steps_per_epoch_(std::max<std::uint64_t>(parts.builds.front()->steps_per_epoch(), 1)),
      reported_(has_reports(parts.builds.front()->plan())),
      done_(parts.first_step) {
  for (const auto& build : parts_.builds) every_.push_back(build->plan().when);
}

RunResult Training::run() {
  start_event();
  doing("the first step");
  Graph& graph = *parts_.graphs.front();
  if (parts_.builds.front()->trains()) {
    graph.on_step_done([this](std::uint64_t step) { return step_done(step); });
    resumed_ = Clock::now();
    graph.start(parts_.first_step, parts_.total_steps);
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
  Json line = {{"event", "end"}, {"epoch", static_cast<double>(done_) / static_cast<double>(steps_per_epoch_)}, {"step", done_}};
  line["bad_samples"] = parts_.log.bad_samples();
  if (result_.signal != 0) line["signal"] = result_.signal;
  parts_.log.event(std::move(line));
  return result_;
}

void Training::start_event() {
  Json line = {{"event", "start"}, {"name", parts_.pipeline.run.name}, {"file", parts_.pipeline.file}};
  line["seed"] = parts_.pipeline.run.seed;
  line["epochs"] = parts_.pipeline.run.epochs;
  line["first_step"] = parts_.first_step + 1;
  line["steps"] = parts_.total_steps;
  line["replicas"] = parts_.replicas.size();
  parts_.log.event(std::move(line));
}

bool Training::step_done(std::uint64_t step) {
  parts_.log.step_done(step);
  const std::lock_guard lock(mutex_);
  done_ = step + 1;
  if (!is_boundary(done_)) return true;
  boundary_ = done_;
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
    changed_.wait_for(lock, kTick, [this] { return boundary_ != 0 || drained_; });
    const std::uint64_t boundary = std::exchange(boundary_, 0);
    const bool drained = drained_;
    lock.unlock();
    if (boundary != 0) {
      at_boundary(boundary);
      if (boundary < parts_.total_steps && result_.signal == 0) {
        resumed_ = Clock::now();
        graph.resume();
      } else {
        graph.stop();
        graph.resume();
      }
    }
    if (stop_requested()) graph.stop();
    watch(graph, stall_);
    if (parts_.options.on_tick) parts_.options.on_tick(graph.figures());
    if (progress_.due()) show_progress();
    lock.lock();
    if (drained && boundary_ == 0) return;
  }
}

bool Training::stop_requested() {
  if (result_.signal == 0 && parts_.options.stop_signal) {
    result_.signal = parts_.options.stop_signal->load();
    if (result_.signal != 0) progress_.say("stopping after the step under way; once more to stop at once");
  }
  return result_.signal != 0;
}

void Training::doing(std::string what) const {
  if (parts_.options.activity) parts_.options.activity->set(std::move(what), true);
}

void Training::watch(const Graph& graph, StallWatch& stall) {
  if (result_.signal != 0) return doing("the steps under way: " + waits_for(graph));
  if (const std::string text = stall.look(graph); !text.empty()) parts_.log.warn(text);
}

void Training::at_boundary(std::uint64_t done) {
  doing(fmt::format("devices, at the end of step {}", done));
  for (const auto& replica : parts_.replicas) replica->finish();  // the reports of these steps are on their way
  training_seconds_ += seconds_since(resumed_);                   // with what devices still had to do
  if (done % steps_per_epoch_ == 0 || done == parts_.total_steps) end_epoch((done - 1) / steps_per_epoch_, done);
  run_other_graphs(done);
}

void Training::run_other_graphs(std::uint64_t done) {
  bool exchanged = false;
  for (std::size_t g = 1; g < parts_.graphs.size() && !stop_requested(); ++g) {
    if (!every_[g].due(done, steps_per_epoch_, parts_.total_steps)) continue;
    if (!std::exchange(exchanged, true)) exchange_weights();
    run_pass(g, 0, parts_.builds[g]->steps_per_epoch());
  }
  if (exchanged) exchange_weights();
}

void Training::exchange_weights() {
  if (parts_.evaluated.empty()) return;
  for (const auto& replica : parts_.replicas) replica->exchange(parts_.evaluated);
}

void Training::end_epoch(std::uint64_t epoch, std::uint64_t done) {
  const std::string& name = parts_.builds.front()->plan().name;
  const std::uint64_t first = std::max(epoch * steps_per_epoch_, parts_.first_step);
  const RunLog::Sums sums = await_reports(epoch, done - first);
  const GraphBuild& build = *parts_.builds.front();
  const bool known = sums.steps > 0;
  const double images = known ? sums.samples : static_cast<double>(build.samples_until(done) - build.samples_until(first));
  const double rate = images / std::max(training_seconds_, 1e-9);
  Json line = {{"event", "epoch"}, {"epoch", epoch + 1}, {"step", done}};
  sums.add_figures(line);
  line["images_per_second"] = rate;
  line["seconds"] = training_seconds_;
  if (known) line["stream_hash"] = hex(sums.stream_hash);
  line["resident_bytes"] = resident_bytes();
  parts_.log.event(std::move(line));
  const std::string figures = known ? sums.text(4, kFiguresShown) : "no stage reports the loss";
  progress_.say(fmt::format("{}: epoch {}/{:g}  {}  {:.0f} images/s{}", name, epoch + 1, parts_.pipeline.run.epochs, figures,
                            rate, known ? "  stream " + hex(sums.stream_hash) : ""));
  parts_.log.forget(name, epoch);
  training_seconds_ = 0;
}

// The last reports are a matter of microseconds. A stage that never makes them must not keep the run.
RunLog::Sums Training::await_reports(std::uint64_t epoch, std::uint64_t expected) {
  const std::string& name = parts_.builds.front()->plan().name;
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
  graph.start(first, last);
  std::future<void> drained = std::async(std::launch::async, [&graph] { graph.wait(); });
  while (drained.wait_for(kTick) != std::future_status::ready) {
    if (stop_requested()) graph.stop();
    watch(graph, stall);
    if (g == 0 && parts_.options.on_tick) parts_.options.on_tick(graph.figures());
  }
  drained.get();
  if (result_.signal != 0) return;  // half a pass is no figure
  const double seconds = seconds_since(start);
  const std::uint64_t an_epoch = build.steps_per_epoch();
  const RunLog::Sums sums = take_sums(name, first / an_epoch, last / an_epoch);
  if (sums.steps == 0) {
    const std::uint64_t left_out = parts_.log.skipped_samples(name) - skipped;
    return end_data_pass(name, build.samples_until(last) - build.samples_until(first) - left_out, seconds);
  }
  Json line = {{"event", "validate"}, {"graph", name}};
  line["epoch"] = static_cast<double>(done) / static_cast<double>(steps_per_epoch_);
  line["step"] = done;
  line["samples"] = sums.samples;
  sums.add_figures(line);
  line["images_per_second"] = sums.samples / seconds;
  line["seconds"] = seconds;
  line["stream_hash"] = hex(sums.stream_hash);
  parts_.log.event(std::move(line));
  progress_.say(fmt::format("{}: {:.0f} images  {}  {}", name, sums.samples, sums.text(4), duration_text(seconds)));
  result_.last_validation = sums;
}

// A graph without metrics, such as the data stages alone.
void Training::end_data_pass(const std::string& name, std::uint64_t samples, double seconds) {
  const double rate = static_cast<double>(samples) / seconds;
  parts_.log.event({{"event", "pass"}, {"graph", name}, {"samples", samples}, {"images_per_second", rate}, {"seconds", seconds}});
  progress_.say(fmt::format("{}: {} images  {:.0f} images/s  {}", name, samples, rate, duration_text(seconds)));
}

void Training::show_progress() {
  ProgressFigures figures;
  const GraphBuild& build = *parts_.builds.front();
  {
    const std::lock_guard lock(mutex_);
    figures.step = done_;
  }
  if (figures.step == parts_.total_steps) return;  // what there is to say is said
  figures.name = build.plan().name;
  figures.steps = parts_.total_steps;
  figures.epochs = parts_.pipeline.run.epochs;
  figures.epoch = static_cast<double>(figures.step) / static_cast<double>(steps_per_epoch_);
  const std::uint64_t epoch = figures.step / steps_per_epoch_;
  const RunLog::Sums sums = parts_.log.sums(build.plan().name, epoch);
  figures.measured = sums.text(3, kFiguresShown);
  const double seconds = training_seconds_ + seconds_since(resumed_);
  const std::uint64_t steps = figures.step - std::max(epoch * steps_per_epoch_, parts_.first_step);
  if (steps > 0) {
    figures.images_per_second = sums.samples / seconds;
    figures.seconds_left = seconds / static_cast<double>(steps) * static_cast<double>(figures.steps - figures.step);
  }
  figures.waits_for = waits_for(parts_.graphs.front()->figures());
  progress_.show(figures);
}

}  // namespace millrace
