// One other program, started, waited for with a limit, and killed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace millrace::gpu {

struct ProcessStart {
  std::vector<std::string> words;  // the program's path first
  std::filesystem::path log;       // takes what it prints
  bool own_group = true;           // false: it is killed with its parent's group
};

// Dies with the process that made it. One thread uses it.
class Process {
 public:
  explicit Process(const ProcessStart& start);  // throws Error(run) when there is no process to be had
  ~Process();                                   // kill()
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Its status as waitpid() tells it, once it has ended; what it left behind in its group is killed then. Nothing: it still runs.
  std::optional<int> wait(double seconds);
  // With its group. False: it does not die, since it waits inside the driver; it is left alone then.
  bool kill();

 private:
  bool ended() const;
  int reap();

  pid_t process_ = -1;
  bool own_group_;
};

}  // namespace millrace::gpu
