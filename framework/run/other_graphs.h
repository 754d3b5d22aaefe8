// The graphs of a run beside its main graph: tried before the first step, and run at boundaries of the main graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/every.h"
#include "millrace/observer.h"
#include "run/run_context.h"
#include "run/run_meter.h"
#include "run/stall.h"
#include "run/stop_request.h"
#include "weight_files/best_weights.h"

namespace millrace {

// One thread, but for are_due(), which any thread may ask. All that it is given outlives it.
class OtherGraphs {
 public:
  OtherGraphs(const RunContext& run, StopRequest& stop, RunMeter& meter);

  // A mistake in another graph is found before an epoch was computed for nothing. The weights are those that the run starts from,
  // and observers are told nothing. Predictions of these batches are not written.
  void try_all();

  bool are_due(std::uint64_t done) const;  // some of them
  // Runs those that are due at this boundary, or all where somebody asks for that, and answers those who ask. Closing ones, which
  // run at the end only and in a run that keeps the best weights, wait for run_closing().
  void run_due(std::uint64_t done);
  // What a run that was stopped did not come to. `epoch_ends`: so is what is due at the end of an epoch.
  void run_left(std::uint64_t done, bool epoch_ends);
  // The closing graphs, of the best weights. Nothing: this process does not know of better ones than those of the last step.
  // `ends`: so does the run, and graphs whose stages write files about predictions run once more where there are better weights:
  // the files belong to the weights that are used afterwards.
  void run_closing(const std::optional<Best>& best, bool ends);
  // Those with every = "end", where a run ends before its last step in good order. Closing ones wait for run_closing().
  void run_ends(std::uint64_t done);
  // The main graph, where it does not train.
  void run_main();

  // Graphs that were due at the last boundary, and the run was stopped before them.
  std::vector<std::string> left() const;
  void restore_left(const std::vector<std::string>& names);

 private:
  bool is_end(std::size_t graph) const;  // every = "end"
  bool is_closing(std::size_t graph) const;
  std::vector<std::size_t> writing() const;  // graphs that write files about predictions, and have run before the end
  void run(const std::vector<std::size_t>& graphs, bool exchanges = true);
  bool run_pass(std::size_t graph, std::uint64_t first, std::uint64_t last);  // false: it was broken off
  bool breaks_off(std::size_t graph) const;  // what was asked for ends a pass of this graph in its middle
  bool is_broken_off(std::size_t graph);
  void try_one(std::size_t graph);
  void require_usable_samples(const GraphBuild& build) const;
  void drive(std::size_t graph, std::uint64_t first, std::uint64_t last);  // until it is drained
  bool is_due(std::size_t graph, std::uint64_t done) const;
  void exchange_weights();

  const RunContext& run_;
  StopRequest& stop_;
  RunMeter& meter_;
  std::vector<Every> every_;                 // by graph
  std::vector<std::size_t> left_, closing_;  // graphs
  std::uint64_t best_step_ = 0;              // of the best weights, while these are evaluated
};

// Starts steps [first, last) of a graph, with the barrier of all processes.
void start_graph(const RunContext& run, std::size_t graph, std::uint64_t first, std::uint64_t last);

// Some times a second, while a graph runs: warns where nothing moves in it.
void watch_graph(const RunContext& run, std::size_t graph, StallWatch& stall, bool is_stopping);
std::string status_of(const RunContext& run, std::size_t graph);  // what everything waits for, on any thread

}  // namespace millrace
