// Runs a prepared pipeline: epochs, other graphs, files, and an end in good order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "prepare/prepared_run.h"
#include "run/best_exchange.h"
#include "run/decide.h"
#include "run/ended.h"
#include "run/run_context.h"
#include "run/run_meter.h"
#include "run/slow_replica.h"
#include "run/stall.h"
#include "run/step_barrier.h"
#include "util/mutex.h"

namespace millrace {

// Feeds events to decide() and executes its actions; it has no rules of its own. Uses up what was prepared, which outlives it.
//
// The thread that calls run() executes all actions. Threads of graphs, ranks and observers put events into the inbox and never
// wait for that thread: steps only compare with the horizon of the main graph's gate.
class Runner {
 public:
  // `seconds`: that the run has taken already, with a branch of it that was abandoned. `is_last_try`: no rollback follows.
  explicit Runner(PreparedRun& prepared, double seconds = 0, bool is_last_try = false);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Ended run();  // once. Throws the error that ended the run, unless Ended::rollback is set.

 private:
  // From prepared pipeline to graphs that may start, and from the last step to files.
  Ended train();
  void make_writers(const std::filesystem::path& folder);
  void make_barriers();
  void watch_gates();
  RunRules rules() const;
  void report_start();
  void save_results(Ended& ended);
  void write_card(const Ended& ended);
  Ended end_with(Error error);
  Rollback rollback(Error error);
  Error with_checkpoint(const Error& error) const;
  Error with_advice(const Error& error) const;
  std::string command_with(const std::string& command, const char* option, const std::filesystem::path& folder) const;
  std::optional<WrongNumber> wrong_number() const { return run_.findings().numbers.trouble(); }
  std::string newest_checkpoint() const { return checkpointer_ ? checkpointer_->newest() : std::string(); }
  std::filesystem::path folder() const;

  // Any thread.
  void step_done(std::uint64_t step);
  void drained(std::size_t graph, std::optional<Error> error);
  void take(RequestEvent request, std::uint64_t from);
  void put(RunEvent event) MILLRACE_REQUIRES(mutex_);
  void check_horizon() MILLRACE_REQUIRES(mutex_);
  void lower_horizon_for_requests() MILLRACE_REQUIRES(mutex_);
  static std::uint64_t limit_of(const event::Requested& requested, std::uint64_t done);

  // The thread of the run.
  void loop();
  void begin_requests();
  std::optional<RunEvent> next();
  void feed(RunEvent event);
  void poll();
  void tick();
  void report_progress();
  void stop_graphs();
  Error give_up(Error error);
  void refuse_after_failure(const action::Refuse& action);
  Error with_weights(const Error& error);
  void start(std::size_t graph, std::uint64_t first, std::uint64_t last);
  void join(const event::Drained& event);
  void end_requests();
  void put_back_weights();
  void swap_averaged();
  bool leaves_out();
  SavedState saved_state();
  void pause_for(const char* what, const std::function<void()>& work);
  bool has_wrong_number() const;
  void throw_if_wrong_number() const;
  Observers::Waiting waiting();  // for an observer
  std::string name_of(std::size_t graph) const { return run_.builds()[graph]->plan().name; }

  void execute(Action& action);
  void try_graph(const action::TryGraph& action);
  void end_try(const action::EndTry& action);
  void start_training();
  void set_horizon(const action::SetHorizon& action);
  void finish_training();
  void settle(const action::Settle& action);
  void run_pass(const action::RunPass& action);
  void measure_pass(const action::MeasurePass& action);
  void agree(const action::Agree& action);
  void put_best(const action::PutBest& action);
  void save_weights(action::SaveWeights& action);
  void checkpoint(const action::Checkpoint& action);

  PreparedRun& prepared_;
  const double seconds_;
  const bool is_last_try_;
  const std::time_t began_ = std::time(nullptr);
  std::unique_ptr<WeightsWriter> weights_;              // null without a network
  std::unique_ptr<Checkpointer> checkpointer_;          // null: the run has no checkpoints
  std::vector<std::unique_ptr<StepBarrier>> barriers_;  // by graph; empty: this process is alone
  RunContext run_;

  RunRules rules_;
  RunState state_;
  std::deque<RunEvent> results_;  // of actions
  MainProgress progress_;
  std::optional<RunMeter> meter_;
  std::optional<RunMeter::MeasuredEpoch> epoch_;  // reported once the rules have decided
  std::optional<RunMeter::MeasuredPass> pass_;    // the same
  SlowReplica slow_replica_;
  int checkpoint_signals_ = 0;  // that were answered
  std::chrono::steady_clock::time_point ticked_;

  // What runs on other threads: the main graph, and one other graph while that stands still.
  struct Running {
    std::size_t graph = 0;
    std::thread waiter;
    std::optional<Activity::Status> status;
    StallWatch stall;
    std::optional<Error> error;  // that has ended it; set before it is drained
  };
  Running main_, other_;
  DonePass passing_;
  std::uint64_t skipped_before_ = 0;  // bad samples, before the pass under way
  std::chrono::steady_clock::time_point pass_began_;
  bool are_averaged_ = false;   // replicas hold the weights that other graphs see
  bool is_rehearsing_ = false;  // other graphs are tried
  bool is_in_pass_ = false;     // another graph runs or is measured, or is about to with the best weights
  std::optional<BestExchange> best_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<RunEvent> inbox_ MILLRACE_GUARDED_BY(mutex_);
  std::optional<event::Drained> main_drained_ MILLRACE_GUARDED_BY(mutex_), other_drained_ MILLRACE_GUARDED_BY(mutex_);
  bool is_training_ MILLRACE_GUARDED_BY(mutex_) = false;   // the main graph was started, and is not drained
  std::uint64_t wanted_horizon_ MILLRACE_GUARDED_BY(mutex_) = 0;    // the horizon as it was set
  std::uint64_t gate_horizon_ MILLRACE_GUARDED_BY(mutex_) = 0;  // steps that have passed the gate or may pass it
  bool was_reached_ MILLRACE_GUARDED_BY(mutex_) = true;    // the horizon, and event::Reached was put
};

// Runs the pipeline once. Throws what has ended it.
Ended run_once(PreparedRun& prepared);

// Runs the pipeline, and with [run] on_nan = "rollback" again from the newest checkpoint, or from an older one where that did not
// help, each time with a smaller learning rate, nan_limit times at most. Each try is prepared by itself, and its observers go on
// with the files of the run. `prepared` is called with each of them before it runs. Throws what the last one throws.
Ended run_with_rollbacks(const Pipeline& pipeline, const Registry& registry, RunOptions options,
                         const std::function<void(PreparedRun&)>& prepared = {});

}  // namespace millrace
