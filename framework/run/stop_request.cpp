#include "run/stop_request.h"

#include <fmt/format.h>

namespace millrace {

bool StopRequest::look() {
  if (run_.main().trains()) rules_.look_at_clock(run_.observers().elapsed_seconds());
  if (!signalled_ && run_.options().hooks.stop_signal) {
    const int signal = run_.options().hooks.stop_signal->load();
    signalled_ = signal != 0;
    if (signalled_) run_.requests().ask({.by = fmt::format("signal {}", signal), .signal = signal, .text = {}});
  }
  if (!found_) found_ = run_.requests().take(RequestKind::stop, progress_.done());
  return found_.has_value();
}

// Whoever asked before has what was asked for, but for a signal, after which nothing more is evaluated.
void StopRequest::begin_closing() {
  ends_ = std::exchange(found_, std::nullopt);
  while (auto again = run_.requests().take(RequestKind::stop, progress_.done())) {
    if (again->signal != 0) {
      found_ = std::move(again);
      return;
    }
    const std::string why = again->text;
    run_.requests().complete(std::move(*again), progress_.done(), why);
  }
}

}  // namespace millrace
