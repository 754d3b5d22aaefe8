#include "process_times.h"

#include <unistd.h>

#include <algorithm>
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

bool is_runnable(const std::filesystem::path& task) {
  const std::string line = first_line(task / "stat");
  const std::size_t end = line.rfind(')');  // of the name, which may hold anything
  return end != std::string::npos && line.compare(end, 3, ") R") == 0;
}

// Of all programs.
double runnable_threads() {
  std::ifstream stream("/proc/stat");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("procs_running ")) return std::stod(line.substr(line.find(' ')));
  }
  return 0;
}

}  // namespace

ProcessTimes process_times(int cores) {
  namespace fs = std::filesystem;
  ProcessTimes times;
  const std::string main_thread = std::to_string(getpid()), program = first_line("/proc/self/comm");
  double own = 0;
  std::error_code gone;  // threads may end meanwhile
  for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task", gone)) {
    if (is_runnable(task)) ++own;
    if (task.path().filename() == main_thread) continue;
    const std::string name = first_line(task.path() / "comm");  // oneTBB's workers have the program's
    (name == "io" ? times.io : name == program ? times.data : times.device) += core_time(task);
  }
  const auto all_cores = static_cast<double>(std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 1));
  times.other_threads = std::max(0.0, runnable_threads() - own) * std::min(1.0, cores / all_cores);
  return times;
}

}  // namespace millrace
