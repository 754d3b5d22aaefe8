// The progress of a run at the end of a step, without the values of its parameters: the text half of a checkpoint.
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

  std::uint64_t step = 0;                      // steps done, in the main graph
  std::uint64_t epoch = 0, step_of_epoch = 0;  // the next epoch and step, from 0
  std::uint64_t batch_size = 0;                // the main graph's; older checkpoints have 0
  std::uint64_t first_step = 0;                // at the run's start
  double seconds = 0;                          // the run's duration
  double rate_factor = 1;                      // requested by RunControl

  // Work left before the next step.
  struct Left {
    std::vector<std::string> passes;  // other graphs that were due here but did not run
    // The run was ended by [stop] or an observer, and its final work is done. Older checkpoints have false.
    bool run_is_over = false;
    bool best_passes = false;  // passes with the best weights, at the end of the run
  };
  Left left;

  // The main graph's current epoch.
  struct Epoch {
    double seconds = 0, samples = 0;
    std::uint64_t steps = 0, stream_hash = 0;  // as reported
    StepSums sums;
  };
  Epoch so_far;

  // A watched metric, by its key and name: "run.best validate.accuracy".
  struct Watched {
    std::optional<double> best;
    std::uint64_t best_step = 0, passes = 0;
    std::uint64_t cooldown = 0;    // number of coming passes to ignore; older checkpoints have none
    std::uint64_t batch_size = 0;  // the batches that `best_step` counts; 0: the state's
  };
  std::map<std::string, Watched> watched;

  std::map<std::string, std::string> stages;    // states saved by stages, by name
  std::map<std::string, std::string> metadata;  // engine plans and names of classes, as in files of weights
  std::string backend, precision;
  std::map<std::string, std::string> versions;  // checkpoint/versions.h; older checkpoints have none
  std::string network;                          // the network's file with its base files, as TOML; "" in older ones
  std::uint64_t replicas = 0;                   // in all processes

  // Hashes of a source's data, as far as they were read (prepare/contents.h).
  struct Contents {
    std::vector<std::uint64_t> sizes = {};                // hashes of the files' sizes, by part of the listing; empty: unknown
    std::map<std::uint64_t, std::uint64_t> samples = {};  // hashes of a few samples' bytes, by index
    std::vector<std::uint64_t> whole = {};                // hashes of all bytes, by part of the listing; empty: not requested
  };

  // The data of a graph's source.
  struct Data {
    std::uint64_t samples = 0;         // per epoch
    std::vector<std::string> classes;  // names by label; may be empty
    // Its whole listing, whatever is selected: samples by class, and Source::listing_hash(). Older checkpoints have none.
    std::vector<std::uint64_t> class_counts = {};
    std::optional<std::uint64_t> listing_hash = {};
    Contents contents = {};  // older checkpoints have none
  };
  std::map<std::string, Data> data;  // by source, "train.read"; older checkpoints have none

  // Hashes of one batch of the main graph, see checkpoint/batch_hashes.h.
  struct BatchHash {
    std::uint64_t stream = 0;  // samples in order, and their draws
    std::uint64_t images = 0;  // the network's input, for some of them
    bool operator==(const BatchHash&) const = default;
  };
  std::vector<BatchHash> batches;  // the last steps', the newest last

  // Bad samples that were reported to observers. Steps and passes after the checkpoint repeat, and do not report these again.
  struct BadSample {
    std::string graph;
    std::uint64_t epoch = 0, position = 0, attempt = 0;  // as in BadSampleEvent
    auto operator<=>(const BadSample&) const = default;
  };
  std::uint64_t bad_samples = 0;         // all of them
  std::vector<BadSample> bad_and_ahead;  // those that will repeat
};

std::string to_json(const SavedState& state);
SavedState read_saved_state(const std::string& json);  // throws Error(data) that describes the error

}  // namespace millrace
