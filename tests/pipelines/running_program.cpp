#include "running_program.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/waited_time.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

bool within(double seconds, const std::function<bool()>& happens) {
  WaitedTime waited;
  while (!happens()) {
    if (waited.seconds() >= seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A running process.
struct Living {
  pid_t id = 0, parent = 0, group = 0;
};

std::vector<Living> living() {
  std::vector<Living> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string text = read_file(entry.path() / "stat");  // "12 (name) S parent group ..."
    const std::size_t end = text.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream rest(text.substr(end + 1));
    char state = 'Z';
    Living process;
    rest >> state >> process.parent >> process.group;
    process.id = std::atoi(name.c_str());
    if (state != 'Z' && state != 'X') found.push_back(process);
  }
  return found;
}

bool group_lives(pid_t group) {
  const std::vector<Living> all = living();
  return std::any_of(all.begin(), all.end(), [group](const Living& process) { return process.group == group; });
}

}  // namespace

RunningProgram::RunningProgram(const Words& words, const Words& environment) {
  id_ = ::fork();
  if (id_ == 0) {
    ::setpgid(0, 0);
    for (const std::string& each : environment) ::putenv(const_cast<char*>(each.c_str()));
    become(words, folder_ / "out", folder_ / "err");
  }
  ::setpgid(id_, id_);  // both do it, since the order is unknown
}

RunningProgram::~RunningProgram() {
  send_to_all(SIGKILL);
  if (!code_) ::waitpid(id_, nullptr, 0);
}

void RunningProgram::send(int signal) const {
  if (!code_) ::kill(id_, signal);
}

void RunningProgram::send_to_all(int signal) const { ::kill(-id_, signal); }

bool RunningProgram::takes_signals(double seconds) const {
  return within(seconds, [&] {
    const std::string status = read_file(fmt::format("/proc/{}/status", id_));
    const std::size_t at = status.find("SigBlk:");
    if (at == std::string::npos || status.find("State:\tZ") != std::string::npos) return true;  // it has ended
    const std::uint64_t blocked = std::strtoull(status.c_str() + at + 7, nullptr, 16);
    return (blocked >> (SIGTERM - 1) & 1U) != 0;
  });
}

bool RunningProgram::says(const std::string& text, double seconds) { return writes("out", text, seconds); }

bool RunningProgram::reports(const std::string& text, double seconds) { return writes("err", text, seconds); }

bool RunningProgram::writes(const std::string& file, const std::string& text, double seconds) {
  bool there = false;
  within(seconds, [&] {
    const bool over = ends(0);
    there = read_file(folder_ / file).find(text) != std::string::npos;
    return there || over;
  });
  return there;
}

bool RunningProgram::ends(double seconds) {
  return within(seconds, [&] {
    int status = 0;
    if (code_ || ::waitpid(id_, &status, WNOHANG) != id_) return code_.has_value();
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  });
}

std::vector<pid_t> RunningProgram::children() const {
  std::vector<pid_t> found;
  for (const Living& process : living()) {
    if (process.parent == id_) found.push_back(process.id);
  }
  return found;
}

bool RunningProgram::is_alone(double seconds) const {
  return code_ && within(seconds, [&] { return !group_lives(id_); });
}

fs::path newest_run(const fs::path& runs) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& name : fs::directory_iterator(runs, ignored)) {
    for (const auto& run : fs::directory_iterator(name.path(), ignored)) {
      if (!run.is_symlink()) found.push_back(run.path());  // "latest"
    }
  }
  const auto older = [](const fs::path& a, const fs::path& b) { return a.filename() < b.filename(); };  // they are dates
  return found.empty() ? fs::path() : *std::max_element(found.begin(), found.end(), older);
}

std::string checkpoint_name(std::uint64_t step) { return fmt::format("step-{:09}", step); }

void copy_back_to(std::uint64_t step, const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const fs::path run = newest_run(to), checkpoints = run / "checkpoints";
  fs::remove(run / "weights.safetensors");
  std::vector<fs::path> later;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name > checkpoint_name(step)) later.push_back(entry.path());
  }
  for (const fs::path& path : later) fs::remove_all(path);
  std::ofstream(checkpoints / "latest") << checkpoint_name(step) << "\n";
}

}  // namespace millrace::test
