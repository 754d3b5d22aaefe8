#include "run/rollback.h"

#include <fmt/format.h>

#include <utility>

#include "millrace/error.h"

namespace millrace {

RunResult run_with_rollbacks(const Pipeline& pipeline, const Registry& registry, SessionOptions options,
                             const std::function<void(Session&)>& made) {
  for (std::int64_t times = 0;; ++times) {
    Session session(pipeline, registry, options);
    made(session);
    try {
      return session.run();
    } catch (Error& error) {
      if (!session.may_go_back()) throw;
      if (times == pipeline.run.nan_limit)
        throw error.in(fmt::format("after it went back {} time{} (run.nan_limit)", times, times == 1 ? "" : "s"));
      options = session.go_back();
    }
  }
}

}  // namespace millrace
