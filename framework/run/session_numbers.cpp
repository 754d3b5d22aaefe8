// Numbers that are not finite: what [run] on_nan asks for, what a user reads, how a run goes back, and how it is done once more.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "millrace/error.h"
#include "run/beside.h"
#include "run/checkpoint_format.h"
#include "run/session.h"
#include "run/shell.h"

namespace millrace {
namespace {

// Steps in front of the gate, each let through by take() and an answer.
class HeldSteps {
 public:
  struct Step {
    Graph::StepReady ready;
    std::function<void(Graph::StepAgreed)> answer;
  };

  HeldSteps(Graph& graph, std::uint64_t first) : next_(first) {
    graph.on_step_ready([this](Graph::StepReady ready, auto answer) {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      const std::uint64_t step = ready.step;
      steps_.insert_or_assign(step, Step{std::move(ready), std::move(answer)});
      changed_.notify_all();
    });
    graph.on_step_done([this](std::uint64_t step) {
      const std::lock_guard lock(mutex_);
      next_ = step + 1;
      changed_.notify_all();
      return true;
    });
  }

  // The next step, when its batch is complete and the updates before it are submitted. Nothing: the graph is drained.
  std::optional<Step> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return drained_ || steps_.contains(next_); });
    if (drained_) return std::nullopt;
    return std::move(steps_.extract(next_).mapped());
  }

  // No step is let through any more: the graph stops, and batches go home.
  void close() {
    std::map<std::uint64_t, Step> dropped;  // goes after the lock, since a batch that goes home may bring another one
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(steps_);
  }

  void drain() {
    close();
    const std::lock_guard lock(mutex_);
    drained_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Step> steps_;
  std::uint64_t next_;
  bool closed_ = false, drained_ = false;
};

// Lets every step go, up to the one that `wants` refuses.
void let_steps_go(HeldSteps& steps, const std::function<bool(const Graph::StepReady&)>& wants) {
  while (auto step = steps.take()) {
    const bool go_on = wants(step->ready);
    step->ready.batch = nullptr;
    if (!go_on) return;
    step->answer(Graph::StepAgreed::alone(step->ready));
  }
}

}  // namespace

void Session::check_on_nan() const {
  const RunParams& run = pipeline_.run;
  const GraphBuild& main = *builds_.front();
  if (run.on_nan == "stop" || !main.trains() || options_.only_main || options_.replays) return;
  const std::string place = pipeline_.place_of("run.on_nan");
  if (run.on_nan == "rollback") {
    if (!has_checkpoints()) {
      fail(ErrorKind::usage, "{}: on_nan = \"rollback\" goes back to a checkpoint, and the file has no [checkpoint]: add one",
           place);
    }
    if (options_.processes > 1) {
      fail(ErrorKind::usage,
           "{}: on_nan = \"rollback\" takes one process, and this run has {}: leave out --processes, or say \"stop\" and "
           "go on with --resume",
           place, options_.processes);
    }
    return;
  }
  const auto& stages = main.stages();
  const auto leaves_out = [](const auto& instances) { return instances.front()->leaves_out_updates(); };
  if (std::any_of(stages.begin(), stages.end(), leaves_out)) return;
  fail(ErrorKind::usage,
       "{}: on_nan = \"skip\" takes a stage that bounds the norm of all gradients, and [{}] has none: put one between "
       "allreduce and optimizer, with global_norm = 1e30 if it is to bound nothing",
       place, main.plan().name);
}

std::string Session::newest_checkpoint_path() const { return checkpointer_ ? checkpointer_->newest() : std::string(); }

std::string Session::newest_checkpoint_words() const {
  return checkpointer_ ? checkpointer_->newest_words() : "the run has no checkpoint";
}

std::string Session::command_with(const std::string& command, const char* option, const std::filesystem::path& folder) const {
  return fmt::format("{} {} {}", command.empty() ? shell_text({"pipeline-run", pipeline_.file}) : command, option,
                     shell_word(folder.string()));
}

// What a run that broke off has left, for one that goes on. Process 0 says it, which has written it.
Error Session::with_checkpoint(const Error& error) const {
  if (!is_first() || error.kind() == ErrorKind::usage || !has_checkpoints() || log_->folder().empty()) return error;
  const std::filesystem::path rescued = checkpointer_ ? checkpointer_->rescued() : std::filesystem::path();
  if (!rescued.empty()) {  // it lies in its run's folder, whatever the file says
    const char* here = pipeline_.checkpoint.folder.empty() ? "--resume" : "--set checkpoint.folder= --resume";
    return {error.kind(), fmt::format("{}; to resume from '{}': {}", error.what(), rescued.string(),
                                      command_with(options_.command, here, rescued.parent_path().parent_path()))};
  }
  const std::string newest = newest_checkpoint_path();
  if (newest.empty()) return {error.kind(), fmt::format("{}; the run has no checkpoint yet", error.what())};
  return {error.kind(), fmt::format("{}; the newest checkpoint is '{}'; to resume from it: {}", error.what(), newest,
                                    command_with(options_.command, "--resume", log_->folder()))};
}

Error Session::with_advice(const Error& error) const {
  if (!is_first()) return error;
  std::string text = error.what();
  const RunParams& run = pipeline_.run;
  if (run.on_nan == "skip" && wrong_number()) {
    text += fmt::format("; more than nan_limit = {} steps in a row were not finite", run.nan_limit);
  }
  text += "; " + newest_checkpoint_words();
  if (!log_->folder().empty()) {
    text += fmt::format("; {} names the layer where it begins",
                        command_with(options_.command_to_explain, "--explain-nan", log_->folder()));
  }
  return {error.kind(), std::move(text)};
}

// The path of the checkpoint that `latest` names then: the newest one. Where the run went back to that before and has written
// none since, its weights may be the trouble: then it is the one before.
std::string Session::point_latest_back() const {
  const std::string newest = newest_checkpoint_path();
  if (!options_.resumed_rate_factor || !resumed_ || resumed_->path.string() != newest) return newest;
  return checkpointer_->point_before(resumed_->checkpoint.state.step);
}

bool Session::may_go_back() const {
  return pipeline_.run.on_nan == "rollback" && wrong_number() && !options_.only_main && !newest_checkpoint_path().empty();
}

SessionOptions Session::go_back() const {
  const WrongNumber wrong = wrong_number().value();
  SessionOptions options = options_;
  options.from = {};
  options.weights.clear();
  options.resume = log_->folder().string();
  options.resumed_rate_factor = requests_.factor(wrong.step) * pipeline_.run.nan_rate_factor;
  const std::string checkpoint = point_latest_back();
  options.notice = fmt::format("{}: the run goes back to '{}', with {:g} times the learning rate of the file", wrong.text(),
                               checkpoint, *options.resumed_rate_factor);
  return options;
}

void Session::replay(std::uint64_t from, const std::function<bool(Batch& batch)>& look) {
  prepare();
  start_replicas();
  if (resumed_) {
    restore_run(*resumed_, replica_view(), saved_stages(), pipeline_.title(), observers_);
    requests_.set_factor(first_step_, resumed_->checkpoint.state.rate_factor);
  }
  if (first_step_ >= last_step_) return;
  Graph& graph = *graphs_.front();
  HeldSteps steps(graph, first_step_);
  graph.start(first_step_, last_step_);
  std::optional<Error> error;
  std::thread waiter;
  const auto wait = [&] {
    try {
      graph.wait();
    } catch (...) {
      error = current_error();
    }
    steps.drain();
  };
  start_beside(graph, [&] {
    try {
      waiter = std::thread(wait);
    } catch (...) {
      steps.close();
      throw;
    }
  });
  std::optional<Error> thrown;
  try {
    let_steps_go(steps, [&](const Graph::StepReady& ready) {
      for (const auto& replica : replicas_) replica->finish();
      return ready.step < from || look(*ready.batch);
    });
  } catch (...) {
    thrown = current_error();
  }
  steps.close();
  graph.stop();
  waiter.join();
  if (thrown) throw *thrown;
  if (error) throw *error;
}

}  // namespace millrace
