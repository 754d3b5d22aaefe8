#pragma once

#include <chrono>

namespace millrace {

// Seconds between start() and stop(), added up. To start what runs, or to stop what does not, changes nothing.
class Stopwatch {
 public:
  void start() {
    if (!runs_) begin_ = Clock::now();
    runs_ = true;
  }
  void stop() {
    before_ = seconds();
    runs_ = false;
  }
  void set(double seconds) {
    before_ = seconds;
    begin_ = Clock::now();
  }
  double seconds() const { return before_ + (runs_ ? std::chrono::duration<double>(Clock::now() - begin_).count() : 0); }

 private:
  using Clock = std::chrono::steady_clock;

  double before_ = 0;
  bool runs_ = false;
  Clock::time_point begin_;  // while it runs
};

}  // namespace millrace
