// Where a run stands at the end of a step, besides the values of its parameters: the half of a checkpoint that is text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend.h"

namespace millrace {

struct RunState {
  static constexpr int kFormat = 1;

  std::uint64_t step = 0;                      // of the main graph, done
  std::uint64_t epoch = 0, step_of_epoch = 0;  // of the next one, from 0
  std::uint64_t first_step = 0;                // with which the run began
  double seconds = 0;                          // that the run has taken
  double rate_factor = 1;                      // that RunControl has asked for
  std::vector<std::string> passes_due;         // other graphs that were to run here and did not come to it

  // The main graph's epoch so far.
  struct Epoch {
    double seconds = 0, samples = 0;
    std::uint64_t steps = 0, stream_hash = 0;  // reported
    StepSums sums;
  };
  Epoch so_far;

  // A figure that is watched, by the key that names it, and its name: "run.best validate.accuracy".
  struct Watched {
    std::optional<double> best;
    std::uint64_t best_step = 0, passes = 0;
  };
  std::map<std::string, Watched> watched;

  std::map<std::string, std::string> stages;    // what stages save, by name
  std::map<std::string, std::string> metadata;  // plans of engines, names of classes: as files of weights have them
  std::string backend, precision;
  std::uint64_t replicas = 0;  // of all processes
};

std::string to_json(const RunState& state);
RunState read_run_state(const std::string& json);  // Throws Error(data) that says what is wrong

}  // namespace millrace
