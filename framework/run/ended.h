#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/observer.h"
#include "prepare/run_options.h"
#include "weights/best_weights.h"

namespace millrace {

// Measurements of another graph, of the weights of a step.
struct Measured {
  std::uint64_t step = 0;
  std::vector<Figure> figures;
};
// By graph, as far as this process has seen: the newest, of the weights that the run had then, and those of the best weights.
struct Measurements {
  std::map<std::string, Measured> last, best;
};

// Requests another run with these options, after one that failed by non-finite numbers.
struct Rollback {
  Error error;
  RunOptions options;
  double seconds = 0;  // of the run so far, abandoned steps included
};

// The result of a run.
struct Ended {
  double epoch = 0;              // of the main graph, done
  std::uint64_t step = 0;        // of the main graph, done
  int signal = 0;                // the signal that stopped it, or 0
  bool stopped = false;          // ended before its last step, by a signal, an observer or the program
  std::string weights_file;      // written at the end, or empty
  std::string best;              // "'runs/.../best.safetensors', validate.accuracy = 0.93 after step 400"; "": the run has none
  std::string go_on;             // the command that resumes the run; "": it has no checkpoint
  std::string folder;            // of the run, or empty
  bool not_finite = false;       // the main graph does not train, and had a non-finite loss or prediction
  std::uint64_t first_step = 0;  // steps that were done when the run began: --from
  Measurements measured;
  std::optional<Best> best_found;    // of run.best or checkpoint.best
  std::optional<Rollback> rollback;  // the run failed; all other fields are empty
};

}  // namespace millrace
