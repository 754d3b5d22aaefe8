// Signals at random moments: while samples are listed, a network is compiled, steps, validation and saves are under way. The run
// ends soon, with its exit code, with a checkpoint that the next one goes on behind, and leaves no process and no temporary file.
//
// MILLRACE_SIGNALS=100 is how many signals are sent, MILLRACE_SIGNALS_SEED the seed of their moments.
#include <fmt/format.h>

#include <csignal>
#include <random>
#include <sstream>
#include <thread>
#include <tuple>

#include "fault_runner.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr double kSoon = 20;      // seconds for a run to end that has something to save
constexpr double kAtOnce = 10;    // and for one that has not
constexpr double kPatience = 60;  // for a program to begin, on machines that do much else

std::vector<nlohmann::json> events_of(const RunningProgram& program, const std::string& event) {
  Outcome outcome;
  outcome.out = program.out();
  return events(outcome, event);
}

class Signals : public RunTest {
 protected:
  struct Sent {
    int signal = 0, code = 0;
    double after = 0;  // seconds
    Words options;
    std::string text() const { return fmt::format("signal {} after {:.3f} s", signal, after); }
  };
  // One run that would go on for ever. Returns the steps that it has done, or `done` where it had not begun.
  std::uint64_t run_until(const Sent& sent, std::uint64_t done) const;
  void expect_no_temporary_file(const std::string& what) const;
  // So many signals, one after the other, to parts of one run.
  void send_signals(std::uint64_t count, const Words& options);

  const Words set_ = {"run.epochs=100000", "checkpoint.every=20 steps"};
};

void Signals::expect_no_temporary_file(const std::string& what) const {
  if (run_in("runs").empty()) return;
  for (const std::string& name : left_by(run_in("runs")).files) {
    EXPECT_FALSE(name.starts_with('.') || name.find(".new") != std::string::npos) << what << " left " << name;
  }
}

std::uint64_t Signals::run_until(const Sent& sent, std::uint64_t done) const {
  const std::string what = fmt::format("behind step {}, {}", done, sent.text());
  RunningProgram program(command("runs", set_, sent.options));
  EXPECT_TRUE(program.takes_signals(kPatience)) << what;
  if (sent.signal == SIGUSR1) program.send(SIGUSR1);  // early too: it must not end a run
  EXPECT_FALSE(program.ends(sent.after)) << what << ": " << program.err();
  program.send(sent.signal);
  if (sent.signal == SIGUSR1) {
    const std::string written = "\"event\":\"checkpoint\"";
    EXPECT_TRUE(program.says(written, kPatience)) << what << ": " << program.err();
    program.send(SIGTERM);
  }
  if (!program.ends(kSoon)) {
    ADD_FAILURE() << what << ": it has not ended after " << kSoon << " s: " << program.err();
    return done;
  }
  EXPECT_EQ(program.code(), sent.code) << what << ": " << program.err();
  EXPECT_TRUE(program.is_alone(5)) << what << ": a process of the run lives on";
  EXPECT_EQ(program.err().find("cannot be used"), std::string::npos) << what << ": " << program.err();
  expect_no_temporary_file(what);
  const auto resumed = events_of(program, "resume"), ends = events_of(program, "end");
  if (!resumed.empty()) {
    EXPECT_EQ(resumed[0].at("step"), done) << what;
  }
  if (ends.empty()) {
    EXPECT_NE(program.err().find("there was nothing to save"), std::string::npos) << what << ": " << program.err();
    return done;
  }
  if (done > 0) {
    EXPECT_EQ(resumed.size(), 1U) << what << ": " << program.err();
  }
  return ends[0].at("step");
}

void Signals::send_signals(std::uint64_t count, const Words& options) {
  const std::uint64_t seed = environment_number("MILLRACE_SIGNALS_SEED", 1);
  std::mt19937_64 random(seed);
  const std::vector<std::pair<int, int>> codes = {{SIGTERM, 143}, {SIGINT, 130}, {SIGHUP, 129}, {SIGUSR1, 143}, {SIGUSR2, 143}};
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Sent sent;
    std::tie(sent.signal, sent.code) = codes[i % codes.size()];
    sent.after = std::uniform_real_distribution<double>(0, 1.2)(random);
    sent.options = options;
    done = run_until(sent, done);
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
  // What all these parts have made together, and what one run makes.
  ASSERT_GT(done, 0U) << "no run came to its first step";
  Words set = set_;
  set.push_back(fmt::format("stop.max_steps={}", done + 3));
  Words going_on = options;
  going_on.insert(going_on.end(), {"--resume", "--allow-change", "stop"});
  const Outcome last = run("runs", set, going_on);
  ASSERT_EQ(last.code, 0) << last.err;
  const Outcome whole = run("whole", set, options);
  ASSERT_EQ(whole.code, 0) << whole.err;
  expect_the_same(left_by(run_in("whole")), left_by(run_in("runs")), fmt::format("seed {}, {} signals", seed, count));
}

TEST_F(Signals, AtAnyMomentEndARunSoonAndLoseNothing) {
  send_signals(environment_number("MILLRACE_SIGNALS", 7), {"--devices", "cpu"});
}

TEST_F(Signals, AtAnyMomentEndTwoProcessesSoonAndLoseNothing) {
  send_signals(environment_number("MILLRACE_SIGNALS", 5), {"--devices", "cpu*2", "--processes", "2"});
}

TEST_F(Signals, ASecondOneEndsTheProgramAtOnce) {
  RunningProgram program(command("runs", set_));
  ASSERT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
  program.send(SIGSTOP);  // so that both come at once
  program.send(SIGTERM);
  program.send(SIGINT);
  program.send(SIGCONT);
  ASSERT_TRUE(program.ends(kAtOnce)) << program.err();
  EXPECT_TRUE(program.code() == 143 || program.code() == 130) << program.code();
  EXPECT_TRUE(program.is_alone(5));
}

TEST_F(Signals, APausedRunGoesOnAsIfNothingHadHappened) {
  const Words set = {};
  ASSERT_EQ(run("whole", set).code, 0);
  RunningProgram program(command("paused", set));
  for (int pause = 0; pause < 4 && !program.ends(0.15); ++pause) {
    program.send_to_all(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    program.send_to_all(SIGCONT);
  }
  ASSERT_TRUE(program.ends(kPatience)) << program.err();
  ASSERT_EQ(program.code(), 0) << program.err();
  expect_the_same(left_by(run_in("whole")), left_by(run_in("paused")), "paused");
}

}  // namespace
}  // namespace millrace::test
