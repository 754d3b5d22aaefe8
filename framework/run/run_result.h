#pragma once

#include <cstdint>
#include <string>

#include "report/run_log.h"

namespace millrace {

// What a run ended with.
struct RunResult {
  double epoch = 0;           // of the main graph, done
  std::uint64_t step = 0;     // of the main graph, done
  int signal = 0;             // that stopped it, or 0
  bool stopped = false;       // before its last step, because a signal, an observer or the program asked for it
  std::string weights_file;   // written at the end, or empty
  std::string best;           // "'runs/.../best.safetensors', validate.accuracy = 0.93 after step 400"; "": the run has none
  std::string go_on;          // the command that goes on where the run stopped; "": it has no checkpoint
  std::string folder;         // of the run, or empty
  bool not_finite = false;    // the main graph does not train, and a loss or a prediction of it was not finite
  GraphSums last_validation;  // of the last pass that was not training
};

}  // namespace millrace
