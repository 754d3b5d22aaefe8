// Measures the waiting time of a polling loop.
#pragma once

#include <algorithm>
#include <chrono>

namespace millrace {

// A paused machine, container or process must not cause a timeout, since everything it waits for was paused too. So at most kMax
// of the time between two polls counts.
class WaitedTime {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kMax = 0.5;  // seconds

  explicit WaitedTime(Clock::time_point now = Clock::now()) : last_(now) {}

  // Seconds since construction or restart. Call it several times a second.
  double seconds(Clock::time_point now = Clock::now()) {
    seconds_ += std::min(std::chrono::duration<double>(now - last_).count(), kMax);
    last_ = now;
    return seconds_;
  }
  void restart(Clock::time_point now = Clock::now()) { *this = WaitedTime(now); }

 private:
  Clock::time_point last_;
  double seconds_ = 0;
};

}  // namespace millrace
