// The course of a run: epochs of the main graph, other graphs at its boundaries, requests, and what observers are told.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "run/checkpointer.h"
#include "run/run_state.h"
#include "run/session.h"
#include "run/stall.h"
#include "run/stop_rules.h"
#include "run/weights_writer.h"

namespace millrace {

// Drives graphs that Session has made. The calling thread does all that is said here; one more thread waits for the main graph.
class Training {
 public:
  struct Parts {
    const Pipeline& pipeline;
    const SessionOptions& options;
    const std::vector<std::unique_ptr<GraphBuild>>& builds;  // [0] is the main graph
    const std::vector<std::unique_ptr<Graph>>& graphs;
    const std::vector<std::unique_ptr<Replica>>& replicas;
    std::size_t all_replicas;               // of all processes
    const std::string& evaluated;           // the copy of the weights that other graphs see; empty: the weights themselves
    std::uint64_t first_step, total_steps;  // of the main graph: [first, total)
    bool shortened;                         // by stop.max_steps
    RunLog& log;
    Observers& observers;
    Requests& requests;
    const std::vector<std::unique_ptr<Agreement>>& agreements;  // by graph; empty: this process is alone
    std::function<void()> started;                              // observers know that the run has begun
    WeightsWriter* weights;                                     // null: there is no network
    const RunState* resumed;                                    // of the checkpoint that the run resumes from; null: it begins
    std::filesystem::path resumed_from;
    Checkpointer* checkpointer;  // null: the run has no checkpoints
  };
  explicit Training(Parts parts);

  RunResult run();

 private:
  bool step_done(std::uint64_t step);  // from the graph's threads
  void wait_for_main_graph();          // a thread of its own
  void loop();
  void at_boundary(std::uint64_t done);
  void end_epoch(std::uint64_t epoch, std::uint64_t done);
  void start(std::size_t graph, std::uint64_t first, std::uint64_t last);
  RunLog::Sums await_reports(const std::string& name, std::uint64_t epoch, std::uint64_t expected);
  void await_others(const std::string& name, std::uint64_t epoch, std::uint64_t expected);
  void await_steps(std::uint64_t done);
  bool is_drained();
  void end_boundary(std::uint64_t done);
  void run_other_graphs(std::uint64_t done);
  void run_passes(const std::vector<std::size_t>& graphs);
  Error with_weights(const Error& error);
  void exchange_weights();
  void try_other_graphs();
  void drive(std::size_t graph, std::uint64_t first, std::uint64_t last);     // until it is drained
  bool run_pass(std::size_t graph, std::uint64_t first, std::uint64_t last);  // false: it was stopped
  void end_pass(std::size_t graph, std::uint64_t first, std::uint64_t last, double seconds, std::uint64_t left_out);
  void warn_of_numbers(const PassEvent& pass);
  bool is_first() const;
  void require_measured(const RunLog::Sums& sums, std::uint64_t epoch) const;
  void warn_of_nothing(const std::string& graph) const;
  std::string left_out_text(const std::string& graph) const;
  RunLog::Sums take_sums(const std::string& name, std::uint64_t first_epoch, std::uint64_t last_epoch);
  bool stop_requested();
  bool in_trouble() const;
  void look_at_numbers() const;
  void honour_saves(std::uint64_t done);
  void save(RequestEvent request, const std::string& name, std::uint64_t done);
  void end_requests();
  // training_checkpoints.cpp
  std::uint64_t first_step_before(const RunState& state) const;
  void resume_from(const RunState& state);
  void finish_boundary();
  void ask_for_checkpoints();
  void checkpoint(std::uint64_t done, bool best);
  bool leaves_out();
  RunState state(std::uint64_t done);
  void tell_start();
  void tell_tick(const std::string& waits_for);
  Observers::Waiting waiting();  // for an observer
  void doing(std::string what) const;
  void watch(const Graph& graph, StallWatch& stall);  // some times a second
  bool is_boundary(std::uint64_t done) const;
  // Of the run, resumed or not.
  std::uint64_t first_step_of(std::uint64_t epoch) const { return std::max(epoch * steps_per_epoch_, begun_with_); }

  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

  Parts parts_;
  std::vector<Every> every_;  // by graph
  std::uint64_t steps_per_epoch_;
  RunResult result_;
  StopRules rules_;
  std::optional<RequestEvent> stop_;           // that is being honoured
  bool signalled_ = false;                     // a signal has come, and was asked for
  int checkpoint_signals_ = 0;                 // that were asked for
  std::uint64_t begun_with_;                   // step of the run: first_step, or that of the run that is resumed
  std::vector<std::size_t> passes_left_;       // graphs that were due at this boundary when the run was stopped
  bool epoch_is_over_ = false;                 // of a resumed run: its first step ends an epoch that was under way
  std::optional<std::uint64_t> checkpointed_;  // steps done in the newest checkpoint
  Clock::time_point ticked_;
  std::set<std::string> warned_of_numbers_;  // by graph
  bool reported_;                            // some stage reports the main graph's steps
  bool tells_steps_ = true;                  // observers hear of each step before its boundary
  StallWatch stall_;                         // of the main graph

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t done_ = 0;      // steps of the main graph whose updates are submitted
  std::uint64_t boundary_ = 0;  // the gate is closed after this many steps; 0: it is open
  std::string held_by_;         // the observer that the gate is closed for; "": none
  bool drained_ = false;
  std::optional<Error> error_;

  double training_seconds_ = 0;  // of the epoch so far, validation apart
  // What training_seconds_ and the sums of the epoch have from before this run was resumed, perhaps at another pace.
  double seconds_before_ = 0, samples_before_ = 0;
  Clock::time_point resumed_;
};

}  // namespace millrace
