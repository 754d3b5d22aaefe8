#include "weights_of_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint/run_folder.h"
#include "millrace/util/standard_error.h"
#include "weight_files/best_weights.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// 0 if its checkpoints are elsewhere, or there are none.
std::uint64_t newest_step(const fs::path& run) {
  const std::string name = pointed_to(run / "checkpoints", "latest");
  return is_checkpoint_name(name) ? step_of_checkpoint(name) : 0;
}

}  // namespace

void choose_weights_of_run(CommandLine& line) {
  std::string& weights = line.options.weights;
  std::error_code ignored;
  if (weights.empty() || !fs::is_directory(weights, ignored)) return;
  const fs::path file = weights_of_run(weights);
  const std::optional<Best> best = best_in(file);
  const std::optional<std::uint64_t> last = last_step_in(file);
  const std::string step = best   ? fmt::format(", the best by {}, after step {}", best->figure, best->step)
                           : last ? fmt::format(", after step {}", *last)
                                  : "";
  if (!line.quiet) print_to_stderr("--weights: '{}'{}\n", file.string(), step);
  if (const std::uint64_t newest = newest_step(weights); !best && last && newest > *last) {
    print_to_stderr("warning: '{}' is of step {}, and the run has a checkpoint of step {}; --resume {} resumes it to its end\n",
                    file.string(), *last, newest, weights);
  }
  weights = (without_link(weights) / file.filename()).string();  // recorded by the run
}

}  // namespace millrace
