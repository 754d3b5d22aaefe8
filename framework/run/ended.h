#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/observer.h"
#include "prepare/run_options.h"
#include "weight_files/best_weights.h"

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

// Requests that a run that failed because of numbers that are not finite is prepared again, with these options.
struct Rollback {
  Error error;
  RunOptions options;
  double seconds = 0;  // that the run has taken, with what it abandons
};

// What a run ended with.
struct Ended {
  double epoch = 0;              // of the main graph, done
  std::uint64_t step = 0;        // of the main graph, done
  int signal = 0;                // that stopped it, or 0
  bool stopped = false;          // before its last step, because a signal, an observer or the program asked for it
  std::string weights_file;      // written at the end, or empty
  std::string best;              // "'runs/.../best.safetensors', validate.accuracy = 0.93 after step 400"; "": the run has none
  std::string go_on;             // the command that goes on where the run stopped; "": it has no checkpoint
  std::string folder;            // of the run, or empty
  bool not_finite = false;       // the main graph does not train, and a loss or a prediction of it was not finite
  std::uint64_t first_step = 0;  // steps that were done when the run began: --from
  Measurements measured;
  std::optional<Best> best_found;    // of run.best or checkpoint.best
  std::optional<Rollback> rollback;  // the run has failed; all else is empty
};

}  // namespace millrace
