// Ctrl-C for long-running verbs that end cleanly.
#pragma once

#include <atomic>

namespace millrace {

extern std::atomic<int> stop_signal;  // the signal received, or 0

// From now on SIGINT, SIGTERM and SIGHUP are stored in stop_signal, unless they were ignored, as with `nohup`. The second one
// ends the program at once, with a message (common/second_signal.h).
void install_signal_handlers();

}  // namespace millrace
