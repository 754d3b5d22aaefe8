// Ctrl-C for verbs that take long and end in good order.
#pragma once

#include <atomic>

namespace millrace {

extern std::atomic<int> stop_signal;  // the signal that came, or 0

// From now on SIGINT, SIGTERM and SIGHUP are noted in stop_signal, where they were not ignored, as with `nohup`. The second one
// ends the program at once, and says so (common/second_signal.h).
void install_signal_handlers();

}  // namespace millrace
