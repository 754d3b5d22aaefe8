#include "run/rollback.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "millrace/error.h"

namespace millrace {

RunResult run_with_rollbacks(const Pipeline& pipeline, const Registry& registry, RunOptions options,
                             const std::function<void(PreparedRun&)>& prepared) {
  double seconds = 0;  // that the run has taken, with what it has abandoned
  for (std::int64_t times = 0;; ++times) {
    const std::unique_ptr<PreparedRun> ready = prepare(pipeline, registry, options);
    if (prepared) telling_others(*ready, [&] { prepared(*ready); });
    Run run(*ready, seconds);
    try {
      return run.go();
    } catch (Error& error) {
      if (!run.may_roll_back()) throw;
      if (times == pipeline.run.nan_limit)
        throw error.in(fmt::format("after it went back {} time{} (run.nan_limit)", times, times == 1 ? "" : "s"));
      options = run.rollback_options();
      seconds = ready->audience.observers().elapsed_seconds();
    }
  }
}

}  // namespace millrace
