// The course of a run: epochs of the main graph, other graphs at its boundaries, requests, and what observers are told.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "checkpoint/saved_state.h"
#include "prepare/stop_rules.h"
#include "run/boundary_saves.h"
#include "run/other_graphs.h"
#include "run/progress.h"
#include "run/run_context.h"
#include "run/run_meter.h"
#include "run/run_result.h"
#include "run/slow_replica.h"
#include "run/stall.h"
#include "run/stop_request.h"

namespace millrace {

// Drives the graphs of a run. The calling thread does all that is said here; one more thread waits for the main graph.
class Training {
 public:
  explicit Training(const RunContext& run);

  RunResult run();

 private:
  void tell_start();
  void train();
  void restore(const SavedState& state);
  void finish_boundary();
  void point_latest() const;
  Progress::Gate gate_behind(std::uint64_t done);  // on the graph's threads
  bool is_boundary(std::uint64_t done) const;
  void wait_for_main_graph();  // on a thread of its own
  void loop();
  void at_boundary(std::uint64_t done);
  void end_boundary(std::uint64_t done);
  std::optional<Best> better_than(std::uint64_t done) const;
  void close(std::uint64_t done);  // REQUIRES: a stop was found
  void run_others(const std::function<void()>& passes);
  void stands_still_for(const char* what, const std::function<void()>& work);
  void checkpoint(std::uint64_t done, bool best);
  SavedState state(std::uint64_t done);
  void end_requests();
  bool has_done_max_steps() const;  // of [stop], before the schedule ends
  bool in_trouble() const;
  void look_at_numbers() const;
  Observers::Waiting waiting();  // for an observer

  const RunContext run_;
  StopRules rules_;
  Progress progress_;  // of the main graph
  StopRequest stop_;
  RunMeter meter_;
  OtherGraphs others_;
  BoundarySaves saves_;
  StallWatch stall_;  // of the main graph
  SlowReplica slow_replica_;
  bool epoch_is_over_ = false;  // of a resumed run: its first step ends an epoch that was under way
  bool is_over_ = false;        // SavedState::Left::run_is_over
};

}  // namespace millrace
