// Programs that are signalled, paused and killed while they run, and the folders of their runs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pipelines/command.h"

namespace millrace::test {

using Words = std::vector<std::string>;

// A running program. All its child processes belong to its group, which ends with this object. Limits in seconds exclude time
// during which the machine was paused.
class RunningProgram {
 public:
  explicit RunningProgram(const Words& words, const Words& environment = {});  // "NAME=VALUE"
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t id() const { return id_; }
  std::vector<pid_t> children() const;
  void send(int signal) const;         // to the program
  void send_to_all(int signal) const;  // to its whole group
  // Waits until it handles signals; an earlier signal simply ends it.
  bool takes_signals(double seconds) const;
  bool says(const std::string& text, double seconds);     // on standard output; false if it ends without it
  bool reports(const std::string& text, double seconds);  // on standard error
  bool ends(double seconds);                              // within so many seconds
  bool is_alone(double seconds) const;                    // whether the program has ended, and its group within that time
  int code() const { return *code_; }                     // 128 + signal if it was killed. REQUIRES: ends() was true
  std::string out() const { return read_file(folder_ / "out"); }
  std::string err() const { return read_file(folder_ / "err"); }

 private:
  bool writes(const std::string& file, const std::string& text, double seconds);
  const TemporaryFolder folder_;
  pid_t id_ = -1;
  std::optional<int> code_;
};

// The newest run in `runs`, whose folders are runs/NAME/DATE; empty if there is none.
std::filesystem::path newest_run(const std::filesystem::path& runs);
std::string checkpoint_name(std::uint64_t step);
// Makes `to` a copy of `from` in its state some time after this checkpoint, as if its newest run had been killed.
void copy_back_to(std::uint64_t step, const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace millrace::test
