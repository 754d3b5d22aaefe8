#include "child.h"

#include <gtest/gtest.h>

#include <fstream>

#include "check.h"

namespace millrace::gpu {
namespace {

Command shell(const std::string& script) { return {.words = {"sh", "-c", script}, .environment = {}, .log = {}}; }

constexpr double kPatience = 200;  // seconds, for machines that do much else or are paused

TEST(Child, SaysHowItEnded) {
  EXPECT_EQ(run(shell("exit 3"), kPatience).status, 3);
  EXPECT_EQ(run(shell("kill -SEGV $$"), kPatience).status, 139);
  EXPECT_EQ(run(shell("echo one; printf two"), kPatience).output, "one\ntwo\n");
}

TEST(Child, IsStoppedWithAllThatItStartedWhenItHangs) {
  const Finished finished = run(shell("sleep 3600 & echo $!; wait"), 0.3);
  EXPECT_TRUE(finished.timed_out);
  EXPECT_LT(finished.seconds, kPatience);
  const std::string stat = "/proc/" + finished.output.substr(0, finished.output.find('\n')) + "/stat";
  const auto runs = [&] {  // no more when it is gone, or waits for the machine's first process to notice
    std::ifstream file(stat);
    std::string line;
    return std::getline(file, line) && line.find(") Z ") == std::string::npos;
  };
  for (int i = 0; i < 1000 && runs(); ++i) run(shell("sleep 0.05"), kPatience);
  EXPECT_FALSE(runs()) << "what it started is still there";
}

TEST(Child, IsStoppedWhenItNeverStopsPrinting) {
  EXPECT_TRUE(run({.words = {"yes"}, .environment = {}, .log = {}}, 0.1).timed_out);
}

TEST(Child, HasTheCoresThatItWasGiven) {
  const int core = allowed_cores().back();
  Command command = shell("grep Cpus_allowed_list: /proc/self/status");
  command.cores = {core};
  EXPECT_EQ(run(command, kPatience).output, "Cpus_allowed_list:\t" + std::to_string(core) + "\n");
}

}  // namespace
}  // namespace millrace::gpu
