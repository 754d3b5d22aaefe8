// What the command line asks of pipeline-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prepare/run_options.h"
#include "run_ranks.h"
#include "short_options.h"
#include "trace_file.h"

namespace millrace {

struct CommandLine {
  RunOptions options;                  // as far as the command line says them
  std::string file;                    // the pipeline; "": that of `predict`
  std::string says_file;               // the option whose run has left it; "": it was named
  std::vector<std::string> overrides;  // of the file, as --set takes them
  ShortOptions shorts;                 // further ones, once the file is read
  std::vector<std::string> predict;    // images; empty: none are predicted
  bool strict = false;                 // images unlike those of the training are not predicted
  std::string out, labels;             // the folder of predictions, and what they are compared with
  std::string overfit, explain, picture;
  std::string page;          // where it is served; empty: there is none
  std::uint64_t verify = 0;  // batches; 0: none
  int processes = 1;
  RankWishes ranks;
  std::optional<TraceWish> trace;
  bool check = false, find_rate = false, json = false, quiet = false, top = false;
  bool draws = false;  // `top` on a terminal: the console is off

  bool tries() const { return find_rate || !overfit.empty(); }
};

// Nothing where --help or --version was asked for and answered. Throws Error(usage).
std::optional<CommandLine> read_command_line(int argc, char** argv);

}  // namespace millrace
