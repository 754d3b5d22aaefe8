// A trial's progress line.
#pragma once

#include <chrono>
#include <string>

namespace millrace {

// Writes to standard error: on a terminal a line that renews itself, elsewhere a plain line now and then. Not thread-safe.
class TrialProgress {
 public:
  struct Setting {
    bool terminal = false;
    std::chrono::milliseconds period{0};  // between lines
  };
  static Setting of_standard_error();
  explicit TrialProgress(Setting setting) : setting_(setting), shown_(Clock::now()) {}
  ~TrialProgress() { close(); }
  TrialProgress(const TrialProgress&) = delete;
  TrialProgress& operator=(const TrialProgress&) = delete;

  bool due() const { return Clock::now() - shown_ >= setting_.period; }
  void show(std::string line);
  void close();  // removes the line from a terminal

 private:
  using Clock = std::chrono::steady_clock;

  const Setting setting_;
  Clock::time_point shown_;
  bool open_ = false;
};

}  // namespace millrace
