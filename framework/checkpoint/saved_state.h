// Where a run stands at the end of a step, besides the values of its parameters: the half of a checkpoint that is text.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace {

struct SavedState {
  static constexpr int kFormat = 1;

  std::uint64_t step = 0;                      // of the main graph, done
  std::uint64_t epoch = 0, step_of_epoch = 0;  // of the next one, from 0
  std::uint64_t batch_size = 0;                // of the main graph; older checkpoints have 0
  std::uint64_t first_step = 0;                // with which the run began
  double seconds = 0;                          // that the run has taken
  double rate_factor = 1;                      // that RunControl has asked for

  // What is left to do before another step.
  struct Left {
    std::vector<std::string> passes;  // other graphs that were to run here and did not come to it
    // [stop] or an observer has ended the run, and what comes at its end is done. Older checkpoints say false.
    bool run_is_over = false;
    bool best_passes = false;  // passes with the best weights, at the end of the run
  };
  Left left;

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
    std::uint64_t cooldown = 0;    // passes to come that are not counted; older checkpoints have none
    std::uint64_t batch_size = 0;  // of the batches that `best_step` counts; 0: those of the state
  };
  std::map<std::string, Watched> watched;

  std::map<std::string, std::string> stages;    // what stages save, by name
  std::map<std::string, std::string> metadata;  // plans of engines, names of classes: as files of weights have them
  std::string backend, precision;
  std::map<std::string, std::string> versions;  // checkpoint/versions.h; older checkpoints have none
  std::string network;                          // the network's file with what it extends, as TOML; older ones have ""
  std::uint64_t replicas = 0;                   // of all processes

  // What the samples of a source hold, as far as it was looked at (stages/contents.h).
  struct Contents {
    std::vector<std::uint64_t> sizes = {};                // hashes of the files' sizes, by part of the listing; empty: not known
    std::map<std::uint64_t, std::uint64_t> samples = {};  // hashes of the bytes of a few, by index
    std::vector<std::uint64_t> whole = {};  // of the bytes of all that are taken, by part of them; empty: not asked for
  };

  // What the source of a graph gives.
  struct Data {
    std::uint64_t samples = 0;         // of an epoch
    std::vector<std::string> classes;  // names by label; empty where it knows none
    // What it lists, whatever is chosen of it: samples by class, and Source::listing_hash(). Older checkpoints have none.
    std::vector<std::uint64_t> class_counts = {};
    std::optional<std::uint64_t> listing_hash = {};
    Contents contents = {};  // older checkpoints have none
  };
  std::map<std::string, Data> data;  // by source, "train.read"; older checkpoints have none

  // What a batch of the main graph held: for comparing, see checkpoint/batch_hashes.h.
  struct BatchHash {
    std::uint64_t stream = 0;  // its samples, in their order, and their draws
    std::uint64_t images = 0;  // what the network receives of some of them
    bool operator==(const BatchHash&) const = default;
  };
  std::vector<BatchHash> batches;  // of the last steps done, the newest one last

  // Bad samples that observers were told of. Those of steps and passes that the checkpoint does not hold come again, and are not
  // told again.
  struct BadSample {
    std::string graph;
    std::uint64_t epoch = 0, position = 0, attempt = 0;  // as BadSampleEvent has them
    auto operator<=>(const BadSample&) const = default;
  };
  std::uint64_t bad_samples = 0;         // all of them
  std::vector<BadSample> bad_and_ahead;  // those that come again
};

std::string to_json(const SavedState& state);
SavedState read_saved_state(const std::string& json);  // Throws Error(data) that says what is wrong

}  // namespace millrace
