// Runs that are killed at random moments, and between calls that reach the disk, end as if nothing had happened.
//
// MILLRACE_KILLS=200 sets the kills per place, MILLRACE_KILLS_SEED the seed of their moments. With 100 and more, every call of
// the run that reaches a file is tried.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "fault_runner.h"
#include "replay_log.h"

namespace millrace::test::kill_test {
namespace {

namespace fs = std::filesystem;

constexpr double kPatience = 240;  // seconds, for busy machines

class Kills : public RunTest, public testing::WithParamInterface<Place> {
 protected:
  void SetUp() override {
    if (GetParam().name != "simulated") return;
    const fs::path plugins = fs::path(MILLRACE_BINARY_DIR) / "tests/simulated";
    if (!fs::exists(plugins / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
    setenv("MILLRACE_PLUGIN_PATH", plugins.c_str(), 1);
  }
  void TearDown() override { unsetenv("MILLRACE_PLUGIN_PATH"); }

  // How the run was killed, for a failure; "" if it had ended before.
  std::string kill_once(const std::string& runs, double seconds);
  void go_on_to_the_end(const std::string& runs, const LeftByRun& whole, const std::string& what) const {
    const Outcome last = run(runs, {}, GetParam().options);
    ASSERT_EQ(last.code, 0) << what << ": " << last.err;
    EXPECT_EQ(last.err.find("cannot be used"), std::string::npos) << what << ": " << last.err;
    expect_the_same(whole, left_by(run_in(runs)), what);
  }

  std::uint64_t seed_ = environment_number("MILLRACE_KILLS_SEED", 1);
  std::mt19937_64 random_{seed_};
};

// Kills one process, or all of the run at once.
std::string Kills::kill_once(const std::string& runs, double seconds) {
  const double moment = std::uniform_real_distribution<double>(0.01, seconds)(random_);
  const bool all = random_() % 2 == 0;
  RunningProgram program(command(runs, {}, GetParam().options));
  if (program.ends(moment)) {
    EXPECT_EQ(program.code(), 0) << program.err();
    return {};
  }
  all ? program.send_to_all(SIGKILL) : program.send(SIGKILL);
  EXPECT_TRUE(program.ends(kPatience));
  EXPECT_TRUE(program.is_alone(20)) << "a process of the run that was killed lives on";
  return fmt::format(" {:.3f}", moment);
}

TEST_P(Kills, AtAnyMomentAgainAndAgainLoseNothing) {
  const std::uint64_t kills = environment_number("MILLRACE_KILLS", GetParam().name == "cpu" ? 3 : 2);
  const Outcome first = succeeded(run("whole", {}, GetParam().options));
  const LeftByRun whole = left_by(run_in("whole"));
  for (std::uint64_t kill = 0, runs = 0; kill < kills; ++runs) {
    const std::string folder = fmt::format("runs{}", runs);
    std::string moments;
    for (std::uint64_t left = std::min<std::uint64_t>(kills - kill, 2 + random_() % 3); left > 0; --left, ++kill) {
      const std::string moment = kill_once(folder, first.seconds);
      if (moment.empty()) break;
      moments += moment;
    }
    kill += moments.empty() ? 1 : 0;  // ends the loop on a machine that is suddenly fast
    go_on_to_the_end(folder, whole, fmt::format("seed {}, killed after{} seconds", seed_, moments));
    if (HasFailure()) return;
    fs::remove_all(folder_.path() / folder);
  }
}

TEST_P(Kills, BetweenAnyTwoCallsThatReachTheDiskLoseNothing) {
  const std::uint64_t kills = environment_number("MILLRACE_KILLS", 2);
  const std::optional<Words> logged = fault_environment("whole", {"FAULT_FILES_LOG=" + (folder_ / "calls")});
  if (!logged) GTEST_SKIP() << "fault_files.so was not built";
  RunningProgram first(command("whole", {}, GetParam().options), *logged);
  ASSERT_TRUE(first.ends(kPatience));
  ASSERT_EQ(first.code(), 0) << first.err();
  const LeftByRun whole = left_by(run_in("whole"));
  std::uint64_t calls = 0;  // maximum over processes: each counts its own
  for (const LoggedCall& call : read_log(folder_ / "calls")) calls = std::max(calls, call.number);
  ASSERT_GT(calls, 100U) << "five checkpoints of four files";
  const std::uint64_t tried = kills >= 100 ? calls : kills;
  for (std::uint64_t i = 0; i < tried; ++i) {
    const std::uint64_t call = tried == calls ? i + 1 : 1 + random_() % calls;
    const std::string end = std::vector<std::string>{"exit-before", "exit-within", "exit-after"}[random_() % 3];
    const std::string folder = fmt::format("call{}", i), what = fmt::format("seed {}, {} at call {}", seed_, end, call);
    const Words broken =
        fault_environment(folder, {fmt::format("FAULT_FILES_AT={}", call), "FAULT_FILES_DO=" + end}).value_or(Words());
    RunningProgram program(command(folder, {}, GetParam().options), broken);
    ASSERT_TRUE(program.ends(kPatience)) << what;
    // If another process made the call, this one reports its loss.
    ASSERT_TRUE(program.code() == 137 || program.code() == 138) << what << ": " << program.code() << ' ' << program.err();
    EXPECT_TRUE(program.is_alone(20)) << what;
    go_on_to_the_end(folder, whole, what);
    if (HasFailure()) return;
    fs::remove_all(folder_.path() / folder);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Kills, testing::ValuesIn(places()), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace millrace::test::kill_test
