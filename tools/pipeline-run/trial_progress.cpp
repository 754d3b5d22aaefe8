#include "trial_progress.h"

#include <unistd.h>

#include "millrace/util/standard_error.h"

namespace millrace {
// At the interval of a run's own line.
TrialProgress::Setting TrialProgress::of_standard_error() {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  return {terminal, terminal ? std::chrono::milliseconds(200) : std::chrono::seconds(10)};
}

void TrialProgress::show(std::string line) {
  shown_ = Clock::now();
  if (!setting_.terminal) return print_to_stderr("{}\n", line);
  if (line.size() >= terminal_width()) line.resize(terminal_width() - 1);
  print_to_stderr("\r\x1b[K{}", line);
  open_ = true;
}

void TrialProgress::close() {
  if (!open_) return;
  print_to_stderr("\r\x1b[K");
  open_ = false;
}

}  // namespace millrace
