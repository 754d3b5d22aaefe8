// Ctrl-C for verbs that take long and end in good order.
#pragma once

#include <atomic>

namespace millrace {

extern std::atomic<int> stop_signal;  // the signal that came, or 0

// From now on SIGINT, SIGTERM and SIGHUP (where it was not ignored) are noted in stop_signal. The second one ends the program at
// once, and says so (common/second_signal.h).
void install_signal_handlers();

}  // namespace millrace
