#include "process_times.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "millrace/util/host_cores.h"

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

// Idle time of these cores. "cpu0 user nice system idle iowait ...", in parts of a second: proc_stat(5) of Linux.
double idle_seconds(const std::vector<int>& cores) {
  double idle = 0;
  std::ifstream stream("/proc/stat");
  for (std::string line; std::getline(stream, line) && line.starts_with("cpu");) {
    std::istringstream words(line.substr(3));
    int core = -1;
    double user = 0, nice = 0, system = 0, sleeps = 0, waits = 0;
    if (line[3] == ' ' || !(words >> core >> user >> nice >> system >> sleeps >> waits)) continue;
    if (std::ranges::find(cores, core) != cores.end()) idle += (sleeps + waits) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return idle;
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

ProcessTimes process_times() {
  namespace fs = std::filesystem;
  ProcessTimes times;
  const std::string main_thread = std::to_string(getpid()), program = first_line("/proc/self/comm");
  std::error_code gone;  // threads may end meanwhile
  for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task", gone)) {
    if (task.path().filename() == main_thread) continue;
    const std::string name = first_line(task.path() / "comm");  // oneTBB's workers have the program's name
    (name == "io" ? times.io : name == program ? times.data : times.device) += core_time(task);
  }
  const std::vector<int> cores = available_cores();
  const double all = static_cast<double>(cores.size()) * seconds_of(CLOCK_MONOTONIC), idle = idle_seconds(cores);
  if (idle > 0) times.others = all - idle - seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  return times;
}

}  // namespace millrace
