#include "command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "util/waited_time.h"

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Waits until it ends. Sends signals when due.
void wait_for(pid_t child, const Interruption& interruption, Outcome& outcome) {
  const auto begin = Clock::now();
  const auto is_due = [&] {
    return interruption.once ? interruption.once() : interruption.after > 0 && seconds_since(begin) >= interruption.after;
  };
  WaitedTime awake;
  bool sent = false;
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, WNOHANG, &usage) == 0) {
    const double now = awake.seconds();
    if (!sent && is_due()) {
      kill(child, interruption.signal);
      sent = true;
    }
    if (!outcome.killed && interruption.limit > 0 && now >= interruption.limit) {
      kill(child, SIGKILL);
      outcome.killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  outcome.seconds = seconds_since(begin);
  outcome.awake_seconds = awake.seconds();
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.peak_kib = usage.ru_maxrss;
}

}  // namespace

void become(const std::vector<std::string>& arguments, const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, nullptr);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU}) std::signal(signal, SIG_DFL);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& set,
                              const std::vector<std::string>& options) {
  for (const std::string& each : set) words.insert(words.end(), {"--set", each});
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

Outcome run_command(const std::vector<std::string>& arguments, const Interruption& interruption) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) become(arguments, folder / "out", folder / "err");
  Outcome outcome;
  wait_for(child, interruption, outcome);
  outcome.out = read_file(folder / "out");
  outcome.err = read_file(folder / "err");
  return outcome;
}

namespace {

void expect_code(const Outcome& outcome, int code, const std::source_location& place) {
  if (outcome.code == code) return;
  ADD_FAILURE_AT(place.file_name(), static_cast<int>(place.line()))
      << "exit code " << outcome.code << ", expected " << code << '\n'
      << outcome.err;
}

}  // namespace

Outcome succeeded(Outcome outcome, std::source_location place) {
  expect_code(outcome, 0, place);
  return outcome;
}

std::string refused(const Outcome& outcome, int code, std::source_location place) {
  expect_code(outcome, code, place);
  return outcome.err;
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
    if (entry.path().filename() == name && !entry.is_symlink()) return entry.path();  // except the link to the latest run
  }
  return {};
}

std::vector<double> numbers_behind(const std::string& text, const std::string& key) {
  const std::size_t begin = text.find('[', text.find(key)), end = text.find(']', begin);
  if (text.find(key) == std::string::npos || end == std::string::npos) return {};
  std::string list = text.substr(begin + 1, end - begin - 1);
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream stream(list);
  std::vector<double> numbers;
  for (double number = 0; stream >> number;) numbers.push_back(number);
  return numbers;
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
  namespace fs = std::filesystem;
  static const std::string path = [] {
    const fs::path kept = fs::path(MILLRACE_BINARY_DIR) / "test-files";
    const std::string made_by = std::to_string(fs::last_write_time(tool("pipeline-data")).time_since_epoch().count());
    const fs::path whole = kept / ("shapes-" + made_by);
    if (fs::exists(whole)) return whole.string();
    // Other processes may draw them at the same time.
    const fs::path part = kept / fmt::format("shapes-{}.new-{}", made_by, getpid());
    fs::create_directories(kept);
    const Outcome made = run_command({tool("pipeline-data"), "shapes", part.string(), "--count", "400", "--validation", "130"});
    EXPECT_EQ(made.code, 0) << made.err;
    std::error_code taken;
    fs::rename(part, whole, taken);
    if (taken) fs::remove_all(part);
    return whole.string();
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
