// Runs whose standard error is full, closed or gone: only their messages are lost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "command.h"

namespace millrace::test::standard_error_test {
namespace {

// The command in a shell, followed by redirections.
std::vector<std::string> redirected(const std::string& redirections, const std::vector<std::string>& words) {
  return with({"/bin/sh", "-c", "exec \"$@\" " + redirections, "sh"}, {}, words);
}

std::vector<std::string> small_run(const TemporaryFolder& folder, const std::string& epochs) {
  return with({tool("pipeline-run"), pipeline("quickstart.toml")},
              {"data.path=" + shapes(), "run.folder=" + folder.path().string(), "run.epochs=" + epochs, "train.batch.size=40",
               "train.read.limit=120"});
}

TEST(StandardError, MayBeFullOrClosed) {
  for (const char* redirections : {"2>/dev/full", "2>&-", "<&- >&- 2>&-"}) {
    const TemporaryFolder folder;
    EXPECT_EQ(run_command(redirected(redirections, small_run(folder, "2"))).code, 0) << redirections;
    EXPECT_FALSE(find_file(folder.path(), "weights.safetensors").empty()) << redirections;
    std::istringstream lines(read_file(find_file(folder.path(), "metrics.jsonl")));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_TRUE(nlohmann::json::accept(line)) << redirections << ": a file got the text: " << line;
    }
    EXPECT_GT(count, 6) << redirections;
  }
}

TEST(StandardError, AMistakeHasItsCodeWithoutIt) {
  EXPECT_EQ(run_command(redirected("2>/dev/full", {tool("pipeline-run"), "/nowhere.toml"})).code, 2);
  EXPECT_EQ(run_command(redirected("2>&-", {tool("pipeline-data"), "nothing"})).code, 2);
}

TEST(StandardError, ASignalIsTakenWithoutIt) {
  const TemporaryFolder folder;
  Interruption term;
  term.signal = SIGTERM;
  term.once = [&] { return read_file(find_file(folder.path(), "metrics.jsonl")).find("\"step\"") != std::string::npos; };
  EXPECT_EQ(run_command(redirected("2>/dev/full", small_run(folder, "1000")), term).code, 143);
  EXPECT_FALSE(find_file(folder.path(), "weights.safetensors").empty());
}

// A full disk behind standard output is reported; a reader that has closed the pipe is not.
TEST(StandardOutput, MayBeFullAndThenTheProgramFails) {
  const TemporaryFolder folder;
  std::vector<std::string> check = small_run(folder, "1");
  check.emplace_back("--check");
  const std::vector<std::string> dot = {tool("pipeline-inspect"), pipeline("quickstart.toml"), "--dot"};
  for (const auto& words : {check, dot}) {
    const Outcome outcome = run_command(redirected(">/dev/full", words));
    EXPECT_EQ(outcome.code, 1) << words.back() << outcome.err;
    EXPECT_NE(outcome.err.find("standard output cannot be written: No space left on device"), std::string::npos) << outcome.err;
    EXPECT_EQ(run_command(redirected("| head -c 1 >/dev/null", words)).code, 0) << words.back();
  }
  std::vector<std::string> json = small_run(folder, "1");
  json.emplace_back("--json");
  const Outcome outcome = run_command(redirected(">/dev/full", json));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: cannot write to standard output: No space left on device"), std::string::npos)
      << outcome.err;
  EXPECT_FALSE(find_file(folder.path(), "weights.safetensors").empty()) << "training is worth more than its lines";
}

TEST(ReportPage, ThatCannotBeWrittenIsNoFaultOfTheData) {
  const TemporaryFolder folder;
  std::ofstream(folder / "pipeline.toml") << "[run]\nname = \"r\"\n";
  std::ofstream(folder / "metrics.jsonl")
      << "{\"event\":\"start\",\"name\":\"r\",\"epochs\":1.0,\"first_step\":1,\"steps\":3,\"elapsed_seconds\":0}\n";
  const Outcome outcome = run_command({tool("pipeline-report"), folder.path().string(), "--html", "/proc/page.html"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("cannot create '/proc/page.html"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace millrace::test::standard_error_test
