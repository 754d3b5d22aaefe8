// The request to stop that ends a run early: of a signal (tools/pipeline-run/signal_watch.h), a clock, a rule or an observer.
#pragma once

#include <optional>
#include <utility>

#include "millrace/observer.h"
#include "prepare/stop_rules.h"
#include "run/progress.h"
#include "run/run_context.h"

namespace millrace {

// One thread.
class StopRequest {
 public:
  // All of it outlives this.
  StopRequest(const RunContext& run, StopRules& rules, const Progress& progress)
      : run_(run), rules_(rules), progress_(progress) {}

  // Looks at the clock, for a signal, and for requests that are in force: of several processes all find one at the same step.
  // Returns whether there is one, now or from an earlier look.
  bool look();
  const std::optional<RequestEvent>& found() const { return found_; }
  // Whether a pass under way is broken off. What a signal ends resumes later, with this pass. What another request ends is over:
  // a pass is finished then, as half of one is no figure.
  bool breaks_off() const { return found_ && found_->signal != 0; }

  // While what was found ends the run, and what closes it is under way: only another request stops that.
  void begin_closing();
  void end_closing();  // where another one has come, what was found first is completed

 private:
  std::optional<RequestEvent> take();

  const RunContext& run_;
  StopRules& rules_;
  const Progress& progress_;
  bool signalled_ = false;  // a signal has come, and was asked for
  std::optional<RequestEvent> found_, ends_;
};

}  // namespace millrace
