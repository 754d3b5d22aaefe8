#include "stop_signal.h"

#include <csignal>

namespace millrace {

std::atomic<int> stop_signal{0};

namespace {

void on_signal(int signal) { stop_signal = signal; }

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // with nohup it stays ignored
}

}  // namespace millrace
