#include "process_times.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace millrace {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// "nanoseconds on a core, nanoseconds runnable without one, turns": Documentation/scheduler/sched-stats.rst of Linux.
CoreTime core_time(const std::filesystem::path& task) {
  CoreTime time;
  std::ifstream stream(task / "schedstat");
  if (!(stream >> time.seconds >> time.waited)) return {};
  time.seconds *= 1e-9;
  time.waited *= 1e-9;
  return time;
}

}  // namespace

ProcessTimes process_times() {
  namespace fs = std::filesystem;
  ProcessTimes times;
  const std::string main_thread = std::to_string(getpid()), program = first_line("/proc/self/comm");
  std::error_code gone;  // threads may end meanwhile
  for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task", gone)) {
    if (task.path().filename() == main_thread) continue;
    const std::string name = first_line(task.path() / "comm");  // oneTBB's workers have the program's
    (name == "io" ? times.io : name == program ? times.data : times.device) += core_time(task);
  }
  return times;
}

}  // namespace millrace
