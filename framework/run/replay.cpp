#include "run/replay.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "checkpoint/checkpointer.h"
#include "millrace/error.h"

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

void replay_steps(Graph& graph, std::uint64_t first, std::uint64_t last,
                  const std::function<bool(const Graph::StepReady& ready)>& wants) {
  HeldSteps steps(graph, first);
  std::optional<Error> error;
  std::thread waiter = start_apart(graph, first, last, [&](std::optional<Error> ended) {
    error = std::move(ended);
    steps.drain();
  });
  std::optional<Error> thrown;
  try {
    let_steps_go(steps, wants);
  } catch (...) {
    thrown = current_error();
  }
  steps.close();
  graph.stop();
  waiter.join();
  if (thrown) throw *thrown;
  if (error) throw *error;
}

void replay(PreparedRun& run, std::uint64_t from, const std::function<bool(Batch& batch)>& look) {
  run.open_graphs();
  start_replicas(run);
  if (run.resume_point) {
    restore_run(*run.resume_point, run.view(), saved_stages(run.main()), {run.pipeline.title(), run.record().versions},
                [&run](std::string text) { run.audience.observers().warn(std::move(text)); });
    run.audience.requests().set_factor(run.steps.first, run.resume_point->checkpoint.state.rate_factor);
  }
  if (run.steps.first >= run.steps.end) return;
  replay_steps(*run.graphs.front(), run.steps.first, run.steps.end, [&](const Graph::StepReady& ready) {
    run.replicas.finish();
    return ready.step < from || look(*ready.batch);
  });
}

}  // namespace millrace
