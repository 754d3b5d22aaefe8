#include "process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(2);
constexpr double kDyingTakes = 3;  // seconds at most, unless the driver holds it
constexpr int kNoProgram = 127;

// Between fork and exec: only what is safe there.
[[noreturn]] void become(char* const* words, const char* log, bool own_group, pid_t parent) {
  if (own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // were the parent killed, nothing is to go on holding the device
  if (getppid() != parent) _exit(kNoProgram);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (file >= 0) {
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
  }
  execv(words[0], words);
  _exit(kNoProgram);
}

}  // namespace

Process::Process(const ProcessStart& start) : own_group_(start.own_group) {
  std::vector<std::string> words = start.words;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string log = start.log.string();
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) become(pointers.data(), log.c_str(), own_group_, parent);
  if (process_ < 0) fail(ErrorKind::run, "'{}' could not be started", words.front());
  if (own_group_) setpgid(process_, process_);  // parent and child both do it: it is done before either counts on it
}

Process::~Process() { kill(); }

// It stays a zombie, so that its number and its group's are not used again before reap().
bool Process::ended() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == process_;
}

int Process::reap() {
  if (own_group_) ::kill(-process_, SIGKILL);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  return status;
}

std::optional<int> Process::wait(double seconds) {
  const auto start = Clock::now();
  while (process_ > 0) {
    if (ended()) return reap();
    if (std::chrono::duration<double>(Clock::now() - start).count() >= seconds) break;
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

bool Process::kill() {
  if (process_ < 0) return true;
  ::kill(own_group_ ? -process_ : process_, SIGKILL);
  if (wait(kDyingTakes)) return true;
  process_ = -1;
  return false;
}

}  // namespace millrace::gpu
