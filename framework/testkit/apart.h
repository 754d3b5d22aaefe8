// Work in a process of its own, which may crash, hang or end without harm to this one.
#pragma once

#include <functional>
#include <string>

namespace millrace::testkit {

struct Ended {
  std::string result;  // what the work returned
  std::string fate;    // "" when it returned; "ended with signal 11 (Segmentation fault)", "did not end within 5 s"
  bool in_time = true;
};

enum class Leave {
  at_once,   // when the work has returned
  in_order,  // then destroy what is static, as a program does that returns from main; what goes wrong there is part of the fate
};

// Forks, runs the work there and waits. What the work says on standard output and error is not shown; the last line of it is part
// of the fate. REQUIRES: this process has one thread.
Ended run_apart(const std::function<std::string()>& work, double seconds, Leave leave = Leave::at_once);

}  // namespace millrace::testkit
