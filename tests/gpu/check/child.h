// Other programs, started and listened to: their standard output line by line, with a limit on how long anybody waits.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace millrace::gpu {

struct Command {
  std::vector<std::string> words;                  // the program first; looked up in PATH when it has no slash
  std::map<std::string, std::string> environment;  // added to this process's
  std::string log;                                 // takes standard error; empty: it is dropped
  std::vector<int> cores = {};                     // that it may use; empty: all of its parent's
  bool of_machine = false;                         // not of ours: gets the library path that this program's caller had
};

// Killed, with all that it has started, when it is still running at the end of this object's life, or of the thread that started
// it. One thread uses it.
class Child {
 public:
  explicit Child(const Command& command);  // throws Error(run) when there is no such program
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  void write_line(const std::string& line);
  // Nothing: its output has ended, or `seconds` have passed (then timed_out()).
  std::optional<std::string> read_line(double seconds);
  bool timed_out() const { return timed_out_; }
  int wait();   // its exit status; 128 + n after signal n
  void kill();  // and waits for its end, for five seconds at most: a process may hang in the driver

 private:
  void reap(int status);

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string pending_;
  bool timed_out_ = false;
  int status_ = 0;
};

struct Finished {
  int status = 0;
  bool timed_out = false;
  double seconds = 0;
  std::string output;
};

// To its end, or to the limit.
Finished run(const Command& command, double limit);

// The program's path, if one of `folders` or PATH has it.
std::optional<std::string> find_program(const std::string& name, const std::vector<std::filesystem::path>& folders = {});

}  // namespace millrace::gpu
