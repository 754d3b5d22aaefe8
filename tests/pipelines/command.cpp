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

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

pid_t start(const std::vector<std::string>& arguments, const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

Outcome run_command(const std::vector<std::string>& arguments, double interrupt_after) {
  const TemporaryFolder folder;
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = start(arguments, folder / "out", folder / "err");
  if (interrupt_after > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(interrupt_after));
    kill(child, SIGINT);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  Outcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.peak_kib = usage.ru_maxrss;
  outcome.out = read_file(folder / "out");
  outcome.err = read_file(folder / "err");
  return outcome;
}

std::string tool(const std::string& name) { return std::string(MILLRACE_BINARY_DIR) + "/bin/" + name; }
std::string pipeline(const std::string& name) { return std::string(MILLRACE_SOURCE_DIR) + "/pipelines/" + name; }

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
    const Outcome made = run_command({tool("pipeline-data"), "shapes", folder / "shapes", "--count", "400", "--validation", "130"});
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
