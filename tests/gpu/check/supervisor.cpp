#include "supervisor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

// All but the standard streams and `keep`.
void close_files(int keep) {
  std::vector<int> open_files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", none))
    open_files.push_back(std::atoi(entry.path().filename().c_str()));
  for (const int file : open_files) {
    if (file > STDERR_FILENO && file != keep) close(file);
  }
}

void redirect_streams(const fs::path& log) {
  const int in = open("/dev/null", O_RDONLY), out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
}

// In the process that stays: says "ready" through the pipe when it has the lock.
int work_detached(const fs::path& lock_file, const fs::path& log, int ready, const std::function<int()>& work) {
  redirect_streams(log);
  close_files(ready);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  const FileLock lock(lock_file);
  if (!lock.held() || ::write(ready, "r", 1) != 1) return 1;
  close(ready);
  try {
    return work();
  } catch (const std::exception& error) {
    const std::string text = std::string("gpu-check: ") + error.what() + "\n";
    return ::write(STDERR_FILENO, text.data(), text.size()) < 0 ? 2 : 1;
  }
}

}  // namespace

FileLock::FileLock(const fs::path& file) : file_(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (file_ < 0) fail(ErrorKind::run, "'{}' cannot be written", file.string());
  for (int i = 0; i < 20 && !held_; ++i) {  // holder_of() may have it for a moment
    held_ = flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (!held_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string process = std::to_string(getpid()) + "\n";
  if (held_ && (ftruncate(file_, 0) != 0 || ::write(file_, process.data(), process.size()) < 0)) {
    fail(ErrorKind::run, "'{}' cannot be written", file.string());
  }
}

FileLock::~FileLock() { close(file_); }

int holder_of(const fs::path& file) {
  const int lock = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock < 0) return 0;
  const bool free = flock(lock, LOCK_SH | LOCK_NB) == 0;
  close(lock);
  int process = 0;
  if (!free) std::ifstream(file) >> process;
  return process;
}

bool start_detached(const fs::path& lock, const fs::path& log, const std::function<int()>& work) {
  int ready[2];
  if (pipe(ready) != 0) fail(ErrorKind::run, "no pipe for the run");
  const pid_t middle = fork();
  if (middle < 0) fail(ErrorKind::run, "the run could not be started");
  if (middle == 0) {
    setsid();
    if (fork() != 0) _exit(0);  // its child has no terminal and no parent that waits
    _exit(work_detached(lock, log, ready[1], work));
  }
  close(ready[1]);
  waitpid(middle, nullptr, 0);
  char byte = 0;
  const bool started = ::read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  return started;
}

void end_processes_of(const fs::path& state) {
  const std::string wanted = "MILLRACE_GPU_CHECK=" + state.string();
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc", none)) {
    const int process = std::atoi(entry.path().filename().c_str());
    if (process <= 1 || process == getpid()) continue;
    std::ifstream environment(entry.path() / "environ", std::ios::binary);
    for (std::string variable; std::getline(environment, variable, '\0');) {
      if (variable == wanted) kill(process, SIGKILL);
    }
  }
}

}  // namespace millrace::gpu
