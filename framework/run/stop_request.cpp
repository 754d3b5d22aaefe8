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
  while (std::optional<RequestEvent> request = breaks_off() ? std::nullopt : take()) {
    if (!found_ || request->signal != 0) found_.swap(request);
    if (!request) continue;  // of two, a signal is the more urgent one
    const std::string why = request->text;
    run_.requests().complete(std::move(*request), progress_.done(), why);
  }
  return found_.has_value();
}

// Another request that came meanwhile is completed: the run ends. After a signal nothing more is evaluated.
void StopRequest::begin_closing() {
  look();
  if (!breaks_off()) ends_ = std::exchange(found_, std::nullopt);
}

void StopRequest::end_closing() {
  if (!ends_) return;
  if (found_) {
    const std::string why = ends_->text;
    run_.requests().complete(std::move(*ends_), progress_.done(), why);
  } else {
    found_ = std::move(ends_);
  }
  ends_.reset();
}

std::optional<RequestEvent> StopRequest::take() { return run_.requests().take(RequestKind::stop, progress_.done()); }

}  // namespace millrace
