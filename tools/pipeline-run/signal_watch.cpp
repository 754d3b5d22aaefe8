#include "signal_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <utility>

namespace millrace {
namespace {

constexpr auto kPeriod = std::chrono::seconds(10);  // from one word on what is waited for to the next

// `nohup` has a program ignore SIGHUP.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;  // NOLINT: a union of the system's
}

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&set, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void SignalWatch::block() {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(const Activity& activity, std::function<void(int code)> end)
    : activity_(activity), end_(std::move(end)) {
  block();
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  closing_ = true;
  thread_.join();
}

void SignalWatch::watch() {
  using Clock = std::chrono::steady_clock;
  const sigset_t set = watched();
  constexpr timespec kTick{0, 100'000'000};
  Clock::time_point next;
  while (!closing_) {
    const int signal = sigtimedwait(&set, nullptr, &kTick);
    if (signal == SIGUSR1) {
      ++checkpoints_;
    } else if (signal > 0) {
      take(signal == SIGUSR2 ? SIGTERM : signal);
      next = Clock::now() + kPeriod;
    } else if (signal_ != 0 && Clock::now() >= next) {
      fmt::print(stderr, "still waiting for {}; once more to stop at once\n", activity_.text());
      next += kPeriod;
    }
  }
}

void SignalWatch::take(int signal) {
  if (signal_ == 0 && activity_.something_to_save()) {
    signal_ = signal;
    return;
  }
  if (signal_ == 0) fmt::print(stderr, "pipeline-run: stopped while {}; there was nothing to save\n", activity_.text());
  end_(128 + signal);
}

}  // namespace millrace
