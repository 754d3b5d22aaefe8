#include "signal_watch.h"

#include <chrono>
#include <csignal>
#include <utility>

#include "common/second_signal.h"
#include "millrace/util/standard_error.h"

namespace millrace {
namespace {

constexpr auto kPeriod = std::chrono::seconds(10);  // between messages about the pending work

// The caller wants it ignored: `nohup` ignores SIGHUP, and a script SIGINT in its background jobs.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;  // NOLINT: the system's union
}

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGUSR1, SIGUSR2, SIGQUIT}) {
    if (!is_ignored(signal)) sigaddset(&set, signal);
  }
  return set;
}

// Discards pending instances of a blocked signal.
void pass_over(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  constexpr timespec kAtOnce{0, 0};
  sigtimedwait(&set, nullptr, &kAtOnce);
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
  sigset_t set = watched();
  constexpr timespec kTick{0, 100'000'000};
  int same = 0;  // not reported: the first one handles it
  Clock::time_point next, same_until;
  while (!closing_) {
    if (same != 0 && Clock::now() >= same_until) {
      pass_over(same);
      sigaddset(&set, std::exchange(same, 0));
    }
    const int signal = sigtimedwait(&set, nullptr, &kTick);
    if (signal == SIGUSR1) {
      ++checkpoints_;
    } else if (signal == SIGQUIT) {
      print_to_stderr("now: {}\n", activity_.status());
    } else if (signal == SIGXCPU && signal_ != 0) {
      continue;  // the system repeats it each second: this is not a second request
    } else if (signal > 0) {
      take(signal == SIGUSR2 ? SIGTERM : signal);
      next = Clock::now() + kPeriod;
      same_until = Clock::now() + kSameRequest;
      same = signal;
      sigdelset(&set, same);
    } else if (signal_ != 0 && Clock::now() >= next) {
      print_to_stderr("still waiting for {}; another signal stops at once\n", activity_.text());
      next += kPeriod;
    }
  }
}

void SignalWatch::take(int signal) {
  if (signal_ == 0 && activity_.something_to_save()) {
    signal_ = signal;
    return;
  }
  if (signal_ == 0) {
    print_to_stderr("pipeline-run: stopped while {}; there was nothing to save\n", activity_.text());
  } else {
    say_second_signal("pipeline-run");
  }
  end_(128 + signal);
}

}  // namespace millrace
