#include "counter.h"

#include <unistd.h>

#include "millrace/util/standard_error.h"

namespace millrace {

namespace {

constexpr std::int64_t kTerminalPause = 100;  // milliseconds

std::int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Counter::Counter(std::string what, std::uint64_t of, std::chrono::milliseconds plain_pause)
    : what_(std::move(what)),
      of_(of),
      terminal_(isatty(STDERR_FILENO) != 0),
      pause_(terminal_ ? kTerminalPause : plain_pause.count()),
      shown_(milliseconds()) {}

Counter::~Counter() {
  if (terminal_) print_to_stderr("\r\033[K");
}

void Counter::add() {
  const std::uint64_t done = ++done_;
  std::int64_t last = shown_, now = milliseconds();
  if (now - last < pause_ || !shown_.compare_exchange_strong(last, now)) return;
  if (terminal_) return print_to_stderr("\r\033[K{} {} of {}", what_, done, of_);
  print_to_stderr("{} {} of {}\n", what_, done, of_);
}

}  // namespace millrace
