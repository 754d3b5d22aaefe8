#include "stop_signal.h"

#include <chrono>
#include <csignal>

#include "common/second_signal.h"

namespace millrace {

std::atomic<int> stop_signal{0};

namespace {

using StopClock = std::chrono::steady_clock;

std::atomic<StopClock::rep> first_came{0};  // by the clock; 0 if none has come
static_assert(std::atomic<StopClock::rep>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Async-signal-safe, and may run on several threads at once.
void on_signal(int signal) {
  const StopClock::rep now = StopClock::now().time_since_epoch().count();
  StopClock::rep first = 0;
  if (first_came.compare_exchange_strong(first, now)) {
    stop_signal = signal;
    return;
  }
  const int noted = stop_signal;  // 0: another thread is about to note it
  if ((noted == signal || noted == 0) && StopClock::duration(now - first) < kSameRequest) return;
  say_second_signal("pipeline-data");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

}  // namespace millrace
