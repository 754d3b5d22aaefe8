// Parses pipeline-run's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prepare/run_options.h"
#include "run_ranks.h"
#include "trace_file.h"

namespace millrace {

// Short forms of --set for the most frequent changes, as written; "" if not given.
struct ShortOptions {
  std::string epochs, batch, rate, name;

  std::string first() const;  // the first given one, "--epochs"; "" if none
};

struct CommandLine {
  RunOptions options;                  // as far as the command line sets them
  std::string file;                    // the pipeline; "": that of `predict`
  std::string run_option;              // the option whose run provides it; "": it was named
  std::vector<std::string> overrides;  // overrides of the file, as for --set
  ShortOptions shorts;                 // more of them, once the file is read
  std::vector<std::string> predict;    // images; empty: no predictions
  std::string watch;                   // a folder whose images are answered as they arrive; "": none
  bool strict = false;                 // refuses images unlike those of the training
  std::string out, labels;             // the folder of predictions, and what to compare them with
  std::string overfit, explain, picture;
  std::string page;          // its address; empty: no page
  std::uint64_t verify = 0;  // batches; 0: none
  int processes = 1;
  RankWishes ranks;
  std::optional<TraceWish> trace;
  bool check = false, find_rate = false, json = false, quiet = false, top = false;
  bool draws = false;  // `top` on a terminal: the console is off

  bool tries() const { return find_rate || !overfit.empty(); }
};

// Empty after --help or --version. Throws Error(usage).
std::optional<CommandLine> read_command_line(int argc, char** argv);

}  // namespace millrace
