// A long run with broken images that is paused, starved, killed and resumed, on a disk that repeatedly fails for a while. Heap
// bytes, descriptors and threads stay constant, steps continue, and no line of metrics.jsonl is torn.
//
//   MILLRACE_SOAK=14400 build/release/tests/fault_runs_test --gtest_filter='Soak*'
//
// runs for four hours. MILLRACE_SOAK_SEED is the seed of events.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "base/waited_time.h"
#include "troubles.h"

namespace millrace::test::soak_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The line that best fits a value over one or more stretches of time. Each stretch has its own offset.
struct Fit {
  double tt = 0, ty = 0, span = 0;
  double per_second() const { return tt > 0 ? ty / tt : 0; }
  double growth() const { return per_second() * span; }
  Fit& operator+=(const Fit& other) {
    tt += other.tt;
    ty += other.ty;
    span += other.span;
    return *this;
  }
};

// A value over time: the minimum of each second, which excludes short-lived memory (a batch, a file of a checkpoint).
class Series {
 public:
  void add(double seconds, double value) {
    if (points_.empty() || seconds >= points_.back().first + 1) {
      points_.emplace_back(seconds, value);
    } else {
      points_.back().second = std::min(points_.back().second, value);
    }
  }
  double mean() const {
    double sum = 0;
    for (const auto& [x, value] : points_) sum += value;
    return points_.empty() ? 0 : sum / static_cast<double>(points_.size());
  }
  Fit fit() const {
    Fit fit;
    if (points_.size() < 2) return fit;
    double t = 0;
    for (const auto& [x, value] : points_) t += x / static_cast<double>(points_.size());
    const double y = mean();
    for (const auto& [x, value] : points_) fit.tt += (x - t) * (x - t), fit.ty += (x - t) * (value - y);
    fit.span = points_.back().first - points_.front().first;
    return fit;
  }

 private:
  std::vector<std::pair<double, double>> points_;
};

double entries(const fs::path& folder) {
  std::error_code error;
  double count = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) ++count;
  return count;
}

// The last whole line of a file that is being written.
double last_number(const std::string& file) {
  const std::string text = read_file(file);
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos || end == 0) return 0;
  const std::size_t before = text.rfind('\n', end - 1);
  return std::strtod(text.c_str() + (before == std::string::npos ? 0 : before + 1), nullptr);
}

struct Figures {
  Fit bytes, descriptors, threads;

  void expect_flat(const std::string& when) const {
    EXPECT_LT(bytes.growth(), 1 << 20) << when << ": the heap grows";
    EXPECT_LT(descriptors.growth(), 1) << when << ": descriptors are not closed";
    EXPECT_LT(threads.growth(), 1) << when << ": threads do not end";
  }
  std::string text() const {
    return fmt::format("{:9.1f} bytes, {:8.5f} descriptors, {:8.5f} threads more each second, over {:.0f} s", bytes.per_second(),
                       descriptors.per_second(), threads.per_second(), bytes.span);
  }
};

class Soak : public RunTest {
 protected:
  struct Life {
    double seconds = 0;
    bool killed = false;
    bool each_trouble = false;  // continues until each kind has occurred
    Troubles::Setting troubles = {};
  };

  void SetUp() override {
    data_ = folder_ / "data";
    fs::copy(shapes(), data_, fs::copy_options::recursive);
    std::set<fs::path> images;
    for (const auto& entry : fs::recursive_directory_iterator(data_ + "/train")) {
      if (entry.is_regular_file()) images.insert(entry.path());
    }
    std::size_t seen = 0;
    for (const fs::path& image : images) {
      if (++seen % 40 == 0) std::ofstream(image) << "no image";
    }
    fmt::print("MILLRACE_SOAK_SEED={}\n", seed_);
  }
  void live(Life life);
  void watch(RunningProgram& program, const Life& life, Troubles& troubles);
  void expect_gone_on_with(const RunningProgram& program) const;
  void expect_whole_lines(bool killed);
  void remember(const RunningProgram& program, bool killed);
  void tell_slopes() const;

  const double seconds_ = static_cast<double>(environment_number("MILLRACE_SOAK", 0));
  const std::uint64_t seed_ = environment_number("MILLRACE_SOAK_SEED", 1);
  std::mt19937_64 random_{seed_};
  std::string data_;
  std::vector<std::pair<double, Figures>> lives_;  // mean bytes of the heap, and slopes
  std::map<std::string, int> seen_;                // troubles
  std::streamoff looked_at_ = 0;                   // bytes of metrics.jsonl
  std::uint64_t saved_ = 0;                        // the step of the newest reported checkpoint
  bool ended_by_itself_ = false;                   // without a kill: the next life begins after that step
};

// The first half warms up. Then all three values are flat.
void Soak::watch(RunningProgram& program, const Life& life, Troubles& troubles) {
  const std::string heap = folder_ / "heap";
  const fs::path process = fmt::format("/proc/{}", program.id());
  Series bytes, descriptors, threads;
  std::uintmax_t size = 0;
  const double start = seconds_now();
  const auto goes_on = [&](double now) {
    return now < start + life.seconds || (life.each_trouble && troubles.seen().size() < troubles.kinds());
  };
  WaitedTime still;
  for (double now = start; goes_on(now); now = seconds_now()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_FALSE(program.ends(0)) << "code " << program.code() << ": " << program.err();
    troubles.look(program);
    std::error_code ignored;
    const std::uintmax_t written = fs::file_size(run_in("runs") / "metrics.jsonl", ignored);
    if (std::exchange(size, written) != written) still.restart();
    ASSERT_LT(still.seconds(), 60) << "nothing happens any more: " << program.err();
    if (now < start + life.seconds / 2 || !troubles.is_calm()) continue;
    bytes.add(now, last_number(heap));
    descriptors.add(now, entries(process / "fd"));
    threads.add(now, entries(process / "task"));
  }
  lives_.push_back({bytes.mean(), {bytes.fit(), descriptors.fit(), threads.fit()}});
}

void Soak::live(Life life) {
  const std::string heap = folder_ / "heap";
  fs::remove(heap);
  const fs::path plugins = fs::path(MILLRACE_BINARY_DIR) / "tests/fault_plugins";
  life.troubles.control = folder_ / "trouble";
  std::optional<Words> environment = fault_environment("runs", {"FAULT_FILES_CONTROL=" + life.troubles.control});
  if (!environment) life.troubles.control.clear();
  Words variables = environment.value_or(Words());
  variables.push_back("MILLRACE_PLUGIN_PATH=" + plugins.string());
  variables.push_back("GLIBC_TUNABLES=glibc.malloc.tcache_count=0");  // memory in threads' caches would count as in use
  RunningProgram program(
      command("runs", {"data.path=" + data_, "run.epochs=1000000", "run.log_every=10", "train.batch.bad_sample_budget=1000",
                       "checkpoint.every=50 steps", "validate.every=40 steps", "observe.heap.file=" + heap}),
      variables);
  ASSERT_TRUE(program.says("\"event\":\"step\"", 120)) << program.err();
  expect_gone_on_with(program);
  Troubles troubles(life.troubles, random_);
  watch(program, life, troubles);
  if (HasFatalFailure()) return;
  troubles.end(program);
  for (const auto& [kind, count] : troubles.seen()) seen_[kind] += count;
  program.send(life.killed ? SIGKILL : SIGTERM);
  ASSERT_TRUE(program.ends(20)) << program.err();
  EXPECT_EQ(program.code(), 128 + (life.killed ? SIGKILL : SIGTERM)) << program.err();
  EXPECT_TRUE(program.is_alone(5));
  expect_whole_lines(life.killed);
  remember(program, life.killed);
}

// After the newest checkpoint reported by the previous life, or a later one.
void Soak::expect_gone_on_with(const RunningProgram& program) const {
  if (saved_ == 0) return;
  Outcome outcome;
  outcome.out = program.out();
  outcome.out.resize(outcome.out.rfind('\n') + 1);
  const auto resumed = events(outcome, "resume");
  ASSERT_EQ(resumed.size(), 1U) << program.err();
  const std::uint64_t step = resumed[0].at("step");
  EXPECT_GE(step, saved_) << program.err();
  if (ended_by_itself_) {
    EXPECT_EQ(step, saved_) << program.err();
  }
}

void Soak::remember(const RunningProgram& program, bool killed) {
  Outcome outcome;
  outcome.out = program.out();
  outcome.out.resize(outcome.out.rfind('\n') + 1);
  const auto told = events(outcome, "checkpoint"), ends = events(outcome, "end");
  ended_by_itself_ = !killed;
  if (!told.empty()) saved_ = told.back().at("step");
  if (killed) return;
  ASSERT_EQ(ends.size(), 1U) << program.err();
  EXPECT_EQ(ends[0].at("step"), saved_) << program.err();
}

// A kill may cut the last line, and the next life removes the fragment.
void Soak::expect_whole_lines(bool killed) {
  std::ifstream file(run_in("runs") / "metrics.jsonl", std::ios::binary);
  file.seekg(looked_at_);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    if (file.eof()) {
      EXPECT_TRUE(killed) << "the last line is cut: " << line;
      break;
    }
    ASSERT_FALSE(json::parse(line, nullptr, false).is_discarded()) << "a torn line: " << line;
    looked_at_ = file.tellg();
  }
  EXPECT_GT(lines, 0U) << "metrics.jsonl has no line of this life";
}

void Soak::tell_slopes() const {
  Figures all;
  for (std::size_t life = 0; life < lives_.size(); ++life) {
    const auto& [bytes, figures] = lives_[life];
    fmt::print("life {:2}: {:.0f} bytes of heap; {}\n", life, bytes, figures.text());
    figures.expect_flat(fmt::format("life {}", life));
    all.bytes += figures.bytes;
    all.descriptors += figures.descriptors;
    all.threads += figures.threads;
  }
  fmt::print("all:     {}\n", all.text());
  all.expect_flat("over all lives");
  for (const auto& [kind, count] : seen_) fmt::print("{} times {}\n", count, kind);
}

TEST_F(Soak, NothingGrowsAndNothingHangs) {
  if (seconds_ <= 0) GTEST_SKIP() << "MILLRACE_SOAK says for how many seconds";
  SCOPED_TRACE(fmt::format("MILLRACE_SOAK_SEED={}", seed_));
  const double a_life = std::max(30.0, seconds_ / 8), end = seconds_now() + seconds_;
  while (seconds_now() < end && !HasFailure()) {
    const bool last = seconds_now() + a_life >= end;
    live({.seconds = a_life, .killed = !last && random_() % 2 == 0});
  }
  tell_slopes();
}

TEST_F(Soak, EachTroubleOnceLeavesTheRunAlive) {
  SCOPED_TRACE(fmt::format("MILLRACE_SOAK_SEED={}", seed_));
  live({.killed = true, .each_trouble = true, .troubles = {.longest = 0.4, .between = 0.4}});
  ASSERT_FALSE(HasFailure());
  const bool has_disk_faults = fs::exists(fs::path(MILLRACE_BINARY_DIR) / "tests/fault/fault_files.so");
  EXPECT_EQ(seen_.size(), has_disk_faults ? 9U : 2U);
  live({.seconds = 1, .killed = false, .troubles = {.longest = 0.2, .between = 0.2}});
}

}  // namespace
}  // namespace millrace::test::soak_test
