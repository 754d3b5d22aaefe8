// Signals at random moments: while samples are listed, a network is compiled, steps, validation and saving run. The run ends
// soon, with its exit code and a checkpoint for resuming, and leaves no process and no temporary file.
//
// MILLRACE_SIGNALS=100 sets the numbers of SIGTERM and SIGUSR2, with some other signals between them; MILLRACE_SIGNALS_SEED is
// the seed of their moments. Counts the phases in which signals arrived.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "troubles.h"

namespace millrace::test::signal_test {
namespace {

namespace fs = std::filesystem;

constexpr double kSoon = 20;      // seconds for a run to end that must save
constexpr double kAtOnce = 10;    // and for one that need not
constexpr double kPatience = 60;  // for a program to begin, on busy machines

constexpr std::uint64_t kLong = 100;  // signals of each kind, with which every phase must be hit

using Phases = std::set<std::string>;
const Phases kPhases = {"listing", "compiling", "training", "validation", "saving"};

std::vector<nlohmann::json> events_of(const RunningProgram& program, const std::string& event) {
  Outcome outcome;
  outcome.out = program.out();
  outcome.out.resize(outcome.out.rfind('\n') + 1);  // the last line may be incomplete
  return events(outcome, event);
}

// The current phases of a run: a checkpoint has its temporary name while it is written, and a validation runs after the report
// of a step. The writer has its own thread, so both are possible.
Phases phases_of(const RunningProgram& program, const fs::path& run) {
  const auto steps = events_of(program, "step"), passes = events_of(program, "validate");
  if (steps.empty()) return {};
  Phases found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", ignored)) {
    if (entry.path().filename().string().starts_with(".step-")) found.insert("saving");
  }
  const std::uint64_t step = steps.back().at("step");
  const bool validates = step % 3 == 0 && (passes.empty() || passes.back().at("step") != step);
  found.insert(validates ? "validation" : "training");
  return found;
}

// Before its first step a run logs its activity.
std::string phase_said(const std::string& text) {
  if (text.find("stopped while listing") != std::string::npos) return "listing";
  if (text.find("stopped while compiling") != std::string::npos) return "compiling";
  return "starting";
}

class Signals : public RunTest {
 protected:
  struct Sent {
    int signal = 0, code = 0;
    double after = 0;     // seconds
    bool to_all = false;  // to all processes of the run, as terminals and Slurm do
    Words options, environment;
    std::string text() const { return fmt::format("signal {} after {:.3f} s", signal, after); }
  };
  // One otherwise endless run. Returns the steps done, or `done` if it had not begun.
  std::uint64_t run_until(const Sent& sent, std::uint64_t done);
  Phases send(const RunningProgram& program, const Sent& sent) const;  // and its phases, before and after
  void expect_an_end_of(RunningProgram& program, const Sent& sent, const std::string& what) const;
  void expect_no_temporary_file(const std::string& what) const;
  // Sends `count` SIGTERM and SIGUSR2, and some others, one after the other, to parts of one run.
  void send_signals(std::uint64_t count, const Words& options);
  std::vector<Sent> signals(std::uint64_t count, const Words& options, std::mt19937_64& random) const;
  double seconds_to_begin(const Words& options) const;
  void expect_that_parts_are_a_whole(std::uint64_t done, const Words& options, const std::string& what) const;
  void tell_phases(bool all) const;
  const std::string& crowd();

  Words set_ = {"run.epochs=100000", "checkpoint.every=20 steps", "validate.read.limit=130"};
  std::map<std::string, std::map<int, int>> met_;  // phases: signals: how often
};

// The images with many names each, so that listing takes a moment.
const std::string& Signals::crowd() {
  static constexpr int kNames = 25;
  static const TemporaryFolder folder;
  static const std::string path = folder / "crowd";
  if (fs::exists(path)) return path;
  fs::copy(shapes(), path, fs::copy_options::recursive);
  std::vector<fs::path> images;
  for (const auto& entry : fs::recursive_directory_iterator(path + "/train")) {
    if (entry.is_regular_file()) images.push_back(entry.path());
  }
  for (const fs::path& image : images) {
    for (int i = 0; i < kNames; ++i) {
      fs::create_hard_link(image, image.parent_path() / fmt::format("{}_{}.jpg", image.stem().string(), i));
    }
  }
  return path;
}

void Signals::expect_no_temporary_file(const std::string& what) const {
  if (run_in("runs").empty()) return;
  for (const std::string& name : left_by(run_in("runs")).files) {
    EXPECT_FALSE(name.starts_with('.') || name.find(".new") != std::string::npos) << what << " left " << name;
  }
}

Phases Signals::send(const RunningProgram& program, const Sent& sent) const {
  const fs::path run = run_in("runs");
  const Phases before = phases_of(program, run);
  sent.to_all ? program.send_to_all(sent.signal) : program.send(sent.signal);
  const Phases after = phases_of(program, run);
  Phases both;
  std::ranges::set_intersection(before, after, std::inserter(both, both.end()));
  return both;
}

void Signals::expect_an_end_of(RunningProgram& program, const Sent& sent, const std::string& what) const {
  const bool at_once = program.ends(kAtOnce);
  if (!at_once && !program.ends(kSoon - kAtOnce)) {
    ADD_FAILURE() << what << ": it has not ended after " << kSoon << " s: " << program.err();
    return;
  }
  const bool saves = program.err().find("there was nothing to save") == std::string::npos;
  EXPECT_TRUE(at_once || saves) << what << ": it took more than " << kAtOnce << " s: " << program.err();
  EXPECT_EQ(program.code(), sent.code) << what << ": " << program.err();
  EXPECT_TRUE(program.is_alone(5)) << what << ": a process of the run lives on";
  EXPECT_EQ(program.err().find("cannot be used"), std::string::npos) << what << ": " << program.err();
  expect_no_temporary_file(what);
}

std::uint64_t Signals::run_until(const Sent& sent, std::uint64_t done) {
  const std::string what = fmt::format("after step {}, {}", done, sent.text());
  RunningProgram program(command("runs", set_, sent.options), sent.environment);
  EXPECT_TRUE(program.takes_signals(kPatience)) << what;
  if (sent.signal == SIGUSR1) program.send(SIGUSR1);  // even early it must not end a run
  EXPECT_FALSE(program.ends(sent.after)) << what << ": " << program.err();
  Phases phases = send(program, sent);
  if (sent.signal == SIGUSR1) {
    const std::string written = "\"event\":\"checkpoint\"";
    EXPECT_TRUE(program.says(written, kPatience)) << what << ": " << program.err();
    program.send(SIGTERM);
  }
  expect_an_end_of(program, sent, what);
  if (HasFailure()) return done;
  const auto resumed = events_of(program, "resume"), ends = events_of(program, "end");
  if (!resumed.empty()) {
    EXPECT_EQ(resumed[0].at("step"), done) << what;
  }
  if (ends.empty()) {
    EXPECT_NE(program.err().find("there was nothing to save"), std::string::npos) << what << ": " << program.err();
    phases = {phase_said(program.err())};
  } else if (done > 0) {
    EXPECT_EQ(resumed.size(), 1U) << what << ": " << program.err();
  }
  if (phases.empty()) phases = {"between"};  // two of them
  for (const std::string& phase : phases) ++met_[phase][sent.signal];
  return ends.empty() ? done : ends[0].at("step").get<std::uint64_t>();
}

// From the moment when a program handles signals to its first step.
double Signals::seconds_to_begin(const Words& options) const {
  RunningProgram program(command("begins", set_, options));
  EXPECT_TRUE(program.takes_signals(kPatience));
  const double begin = seconds_now();
  EXPECT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
  return seconds_now() - begin;
}

// Every third one comes before the first step, the others mostly after it. For one of these, the disk is slow for checkpoints.
std::vector<Signals::Sent> Signals::signals(std::uint64_t count, const Words& options, std::mt19937_64& random) const {
  std::vector<std::pair<int, int>> kinds;
  for (std::uint64_t i = 0; i < count; ++i) {
    kinds.insert(kinds.end(), {{SIGTERM, 143}, {SIGUSR2, 143}});
    if (i % 5 == 0) kinds.insert(kinds.end(), {{SIGINT, 130}, {SIGHUP, 129}, {SIGUSR1, 143}});
  }
  const double begins = seconds_to_begin(options);
  const auto slow = fault_environment("runs", {"FAULT_FILES_NAME=/checkpoints/", "FAULT_FILES_AT=1-", "FAULT_FILES_DO=slow"});
  std::vector<Sent> all;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Sent sent;
    std::tie(sent.signal, sent.code) = kinds[i];
    const double from = i % 3 == 0 ? 0 : 0.8 * begins, to = i % 3 == 0 ? begins : begins + 1.2;
    sent.after = std::uniform_real_distribution<double>(from, to)(random);
    sent.options = options;
    sent.to_all = i % 2 == 1;
    if (i % 3 == 2 && slow) sent.environment = *slow;
    all.push_back(std::move(sent));
  }
  return all;
}

void Signals::send_signals(std::uint64_t count, const Words& options) {
  const bool is_long = count >= kLong;
  if (is_long) set_.push_back("data.path=" + crowd());
  const std::uint64_t seed = environment_number("MILLRACE_SIGNALS_SEED", 1);
  fmt::print("MILLRACE_SIGNALS_SEED={}\n", seed);
  const std::string what = fmt::format("MILLRACE_SIGNALS={} MILLRACE_SIGNALS_SEED={}", count, seed);
  SCOPED_TRACE(what);
  std::mt19937_64 random(seed);
  std::uint64_t done = 0;
  for (const Sent& sent : signals(count, options, random)) {
    done = run_until(sent, done);
    if (HasFailure()) return;
  }
  tell_phases(is_long);
  expect_that_parts_are_a_whole(done, options, what);
}

void Signals::tell_phases(bool all) const {
  for (const auto& [phase, signals] : met_) {
    std::string text;
    for (const auto& [signal, count] : signals) text += fmt::format("  {} {}", count, ::strsignal(signal));
    fmt::print("{:12}{}\n", phase, text);
  }
  if (!all) return;
  for (const std::string& phase : kPhases) {
    if (phase == "saving" && !fault_environment("runs", {})) continue;  // no disk was slow
    for (const int signal : {SIGTERM, SIGUSR2}) {
      const bool is_met = met_.contains(phase) && met_.at(phase).contains(signal);
      EXPECT_TRUE(is_met) << "no signal " << signal << " came during: " << phase;
    }
  }
}

// All these parts together equal one run.
void Signals::expect_that_parts_are_a_whole(std::uint64_t done, const Words& options, const std::string& what) const {
  ASSERT_GT(done, 0U) << "no run came to its first step";
  Words set = set_;
  set.push_back(fmt::format("stop.max_steps={}", done + 3));
  Words going_on = options;
  going_on.insert(going_on.end(), {"--resume", "--allow-change", "stop"});
  Interruption patience;
  patience.limit = 3600;  // for all steps of a long form at once
  const Outcome last = succeeded(run_command(command("runs", set, going_on), patience));
  const Outcome whole = succeeded(run_command(command("whole", set, options), patience));
  expect_the_same(left_by(run_in("whole")), left_by(run_in("runs")), what);
}

TEST_F(Signals, AtAnyMomentEndARunSoonAndLoseNothing) {
  send_signals(environment_number("MILLRACE_SIGNALS", 2), {"--devices", "cpu"});
}

TEST_F(Signals, AtAnyMomentEndTwoProcessesSoonAndLoseNothing) {
  send_signals(environment_number("MILLRACE_SIGNALS", 1), {"--devices", "cpu*2", "--processes", "2"});
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
  EXPECT_NE(program.err().find("\npipeline-run: stopped at once by a second signal; nothing more was saved\n"), std::string::npos)
      << program.err();
  EXPECT_TRUE(program.is_alone(5));
}

// `timeout` sends its signal to the program and to its group.
TEST_F(Signals, TheSameOneAgainWithinAMomentIsTheSameRequest) {
  double took = 1;
  for (int attempt = 0; attempt < 20 && took > 0.1; ++attempt) {  // a busy machine may pause between two of them
    RunningProgram program(command("runs", set_));
    ASSERT_TRUE(program.says("\"event\":\"step\"", kPatience)) << program.err();
    const double begin = seconds_now();
    for (int i = 0; i < 10; ++i) {
      program.send_to_all(SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    took = seconds_now() - begin;
    ASSERT_TRUE(program.ends(kSoon)) << program.err();
    if (took > 0.1) continue;
    EXPECT_EQ(program.code(), 130) << program.err();
    EXPECT_EQ(program.err().find("second signal"), std::string::npos) << program.err();
    const auto ends = events_of(program, "end"), written = events_of(program, "checkpoint");
    ASSERT_EQ(ends.size(), 1U) << program.err();
    ASSERT_FALSE(written.empty()) << program.err();
    EXPECT_EQ(written.back().at("step"), ends[0].at("step"));
  }
  EXPECT_LE(took, 0.1) << "this machine was too busy";
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
}  // namespace millrace::test::signal_test
