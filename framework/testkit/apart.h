// Runs work in a separate process, which may crash, hang or end without harming this one.
#pragma once

#include <functional>
#include <string>

namespace millrace::testkit {

struct Ended {
  std::string result;  // returned by the work
  std::string fate;    // "" if it returned; "ended with signal 11 (Segmentation fault)", "did not end within 5 s"
  bool in_time = true;
};

enum class Leave {
  at_once,   // after the work returned
  in_order,  // destroys static objects first, like returning from main; failures there are part of the fate
};

// Forks, runs the work there and waits. Hides its standard output and error; their last line is part of the fate. REQUIRES: this
// process has one thread.
Ended run_apart(const std::function<std::string()>& work, double seconds, Leave leave = Leave::at_once);

}  // namespace millrace::testkit
