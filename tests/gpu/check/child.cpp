#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Made before the fork: between it and exec nothing may be allocated.
std::vector<std::string> environment_of(const Command& command) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  const auto caller = variables.find("MILLRACE_CALLER_LIBRARY_PATH");
  if (command.of_machine && caller != variables.end()) variables["LD_LIBRARY_PATH"] = caller->second;
  for (const auto& [name, value] : command.environment) variables[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

cpu_set_t set_of(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return set;
}

// In the new process, where nothing may be allocated: its own group, no life without its parent, its cores and its streams.
void prepare_process(pid_t parent, const cpu_set_t* cores, int in, int out, const char* log) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the parent is killed, nothing may go on holding the device
  if (getppid() != parent) _exit(127);
  if (cores != nullptr) sched_setaffinity(0, sizeof *cores, cores);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  const int errors = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (errors >= 0) dup2(errors, STDERR_FILENO);
}

}  // namespace

std::optional<std::string> find_program(const std::string& name, const std::vector<std::filesystem::path>& folders) {
  const auto usable = [](const std::string& path) { return access(path.c_str(), X_OK) == 0; };
  if (name.find('/') != std::string::npos) return usable(name) ? std::optional(name) : std::nullopt;
  for (const std::filesystem::path& folder : folders) {
    if (!folder.empty() && usable(folder / name)) return folder / name;
  }
  const std::string path = std::getenv("PATH") == nullptr ? "/usr/bin:/bin" : std::getenv("PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string candidate = path.substr(begin, end - begin) + "/" + name;
    if (end > begin && usable(candidate)) return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

Child::Child(const Command& command) {
  const std::optional<std::string> program = find_program(command.words.front());
  if (!program) fail(ErrorKind::run, "there is no program '{}'", command.words.front());
  std::vector<std::string> words = command.words, variables = environment_of(command);
  std::vector<char*> arguments = pointers(words), environment = pointers(variables);
  const std::string log = command.log.empty() ? "/dev/null" : command.log;
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) fail(ErrorKind::run, "no pipe for '{}'", *program);
  const cpu_set_t cores = set_of(command.cores);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    prepare_process(parent, command.cores.empty() ? nullptr : &cores, in[0], out[1], log.c_str());
    execve(program->c_str(), arguments.data(), environment.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (process_ < 0) fail(ErrorKind::run, "'{}' could not be started", *program);
  setpgid(process_, process_);
}

Child::~Child() {
  if (to_ >= 0) close(to_);
  kill();
  if (from_ >= 0) close(from_);
}

void Child::write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail(ErrorKind::run, "a program that was to measure has ended");
  }
}

std::optional<std::string> Child::read_line(double seconds) {
  const auto start = Clock::now();
  timed_out_ = seconds <= 0;  // a program that never stops printing is stopped as well
  while (!timed_out_) {
    const std::size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    const double left = seconds - seconds_since(start);
    pollfd ready{from_, POLLIN, 0};
    timed_out_ = left <= 0 || poll(&ready, 1, static_cast<int>(left * 1000) + 1) == 0;
    if (timed_out_) break;
    char bytes[4096];
    const ssize_t count = ::read(from_, bytes, sizeof bytes);
    if (count > 0) {
      pending_.append(bytes, static_cast<std::size_t>(count));
    } else if (count == 0) {
      if (pending_.empty()) return std::nullopt;
      pending_ += '\n';  // a last line without its end
    }
  }
  return std::nullopt;
}

int Child::wait() {
  if (process_ < 0) return status_;
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  reap(status);
  return status_;
}

void Child::reap(int status) {
  process_ = -1;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Child::kill() {
  if (process_ < 0) return;
  ::kill(-process_, SIGKILL);
  for (int i = 0; i < 500; ++i) {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) != 0) return reap(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  process_ = -1;
  status_ = 128 + SIGKILL;
}

Finished run(const Command& command, double limit) {
  const auto start = Clock::now();
  Child child(command);
  Finished finished;
  while (auto line = child.read_line(limit - seconds_since(start))) finished.output += *line + "\n";
  finished.timed_out = child.timed_out();
  if (finished.timed_out) child.kill();
  finished.status = finished.timed_out ? 124 : child.wait();
  finished.seconds = seconds_since(start);
  return finished;
}

}  // namespace millrace::gpu
