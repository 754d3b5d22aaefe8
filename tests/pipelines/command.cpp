#include "command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Sends what is due; returns whether the program was killed.
bool wait_for(pid_t child, const Interruption& interruption, Clock::time_point begin, int& status, rusage& usage) {
  int sent = 0;
  bool killed = false;
  while (wait4(child, &status, WNOHANG, &usage) == 0) {
    const double now = seconds_since(begin);
    const double due = sent == 0 ? interruption.after : interruption.again > 0 ? interruption.after + interruption.again : 0;
    const bool is_due = interruption.once ? sent == 0 && interruption.once() : due > 0 && now >= due;
    if (sent < 2 && is_due) {
      kill(child, interruption.signal);
      ++sent;
    }
    if (!killed && interruption.limit > 0 && now >= interruption.limit) {
      kill(child, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return killed;
}

}  // namespace

void become(const std::vector<std::string>& arguments, const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

Outcome run_command(const std::vector<std::string>& arguments, const Interruption& interruption) {
  const TemporaryFolder folder;
  const auto begin = Clock::now();
  const pid_t child = fork();
  if (child == 0) become(arguments, folder / "out", folder / "err");
  int status = 0;
  rusage usage{};
  Outcome outcome;
  outcome.killed = wait_for(child, interruption, begin, status, usage);
  outcome.seconds = seconds_since(begin);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.peak_kib = usage.ru_maxrss;
  outcome.out = read_file(folder / "out");
  outcome.err = read_file(folder / "err");
  return outcome;
}

bool lacks_bf16(const Outcome& outcome) {
  return outcome.code == 2 && outcome.err.find("precision = \"bf16\" needs AVX-512") != std::string::npos;
}

std::vector<std::string> without_privileges() {
  const std::string setpriv = "/usr/bin/setpriv", drop = "-dac_override,-dac_read_search";
  if (geteuid() != 0) return {"/usr/bin/env"};
  return std::filesystem::exists(setpriv) ? std::vector<std::string>{setpriv, "--bounding-set=" + drop, "--inh-caps=" + drop}
                                          : std::vector<std::string>();
}

std::string tool(const std::string& name) { return std::string(MILLRACE_BINARY_DIR) + "/bin/" + name; }
std::string pipeline(const std::string& name) { return std::string(MILLRACE_SOURCE_DIR) + "/pipelines/" + name; }

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == name) return entry.path();
  }
  return {};
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "millrace-test-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

const std::string& shapes() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    const Outcome made =
        run_command({tool("pipeline-data"), "shapes", folder / "shapes", "--count", "400", "--validation", "130"});
    EXPECT_EQ(made.code, 0) << made.err;
    return folder / "shapes";
  }();
  return path;
}

std::vector<nlohmann::json> events(const Outcome& outcome, const std::string& event) {
  std::vector<nlohmann::json> found;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json parsed = nlohmann::json::parse(line);
    if (parsed.at("event") == event) found.push_back(parsed);
  }
  return found;
}

}  // namespace millrace::test
