// How long somebody has waited who looks again and again.
#pragma once

#include <algorithm>
#include <chrono>

namespace millrace {

// A machine, a container or a process that is paused makes nothing late: whatever it waits for stood still as well. So of the
// time between two looks no more than kMost counts.
class WaitedTime {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kMost = 0.5;  // seconds

  explicit WaitedTime(Clock::time_point now = Clock::now()) : looked_(now) {}

  // Seconds since it was made or restarted. To be called some times a second.
  double look(Clock::time_point now = Clock::now()) {
    seconds_ += std::min(std::chrono::duration<double>(now - looked_).count(), kMost);
    looked_ = now;
    return seconds_;
  }
  void restart(Clock::time_point now = Clock::now()) { *this = WaitedTime(now); }

 private:
  Clock::time_point looked_;
  double seconds_ = 0;
};

}  // namespace millrace
