// A long run with broken images that is paused, killed and gone on with. Bytes of the heap, descriptors and threads stay what
// they are, and steps go on.
//
//   MILLRACE_SOAK=14400 build/release/tests/fault_runs_test --gtest_filter='Soak*'
//
// is four hours. MILLRACE_SOAK_SEED is the seed of what happens.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "fault_runner.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// A figure over time, and the line that fits it best.
class Slope {
 public:
  void add(double seconds, double value) { points_.emplace_back(seconds, value); }
  double span() const { return points_.size() < 2 ? 0 : points_.back().first - points_.front().first; }
  double per_second() const {
    double t = 0, y = 0, tt = 0, ty = 0;
    for (const auto& [x, value] : points_) t += x, y += value;
    const auto count = static_cast<double>(std::max<std::size_t>(points_.size(), 1));
    for (const auto& [x, value] : points_) tt += (x - t / count) * (x - t / count), ty += (x - t / count) * (value - y / count);
    return tt > 0 ? ty / tt : 0;
  }
  double growth() const { return per_second() * span(); }

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

class Soak : public RunTest {
 protected:
  void SetUp() override {
    if (seconds_ <= 0) GTEST_SKIP() << "MILLRACE_SOAK says for how many seconds";
    data_ = folder_ / "data";
    fs::copy(shapes(), data_, fs::copy_options::recursive);
    std::size_t seen = 0;
    for (const auto& entry : fs::recursive_directory_iterator(data_ + "/train")) {
      if (entry.is_regular_file() && ++seen % 40 == 0) std::ofstream(entry.path()) << "no image";
    }
  }
  static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
  void live_for(double seconds, int life);

  const double seconds_ = static_cast<double>(environment_number("MILLRACE_SOAK", 0));
  std::mt19937_64 random_{environment_number("MILLRACE_SOAK_SEED", 1)};
  std::string data_;
};

// The first half warms up. Then all three figures are flat.
void Soak::live_for(double seconds, int life) {
  const std::string heap = folder_ / fmt::format("heap{}", life);
  const fs::path plugins = fs::path(MILLRACE_BINARY_DIR) / "tests/fault_plugins";
  RunningProgram program(command("runs", {"data.root=" + data_, "run.epochs=1000000", "checkpoint.every=50 steps",
                                          "validate.every=40 steps", "observe.heap.file=" + heap}),
                         {"MILLRACE_PLUGIN_PATH=" + plugins.string()});
  ASSERT_TRUE(program.says("\"event\":\"step\"", 120)) << program.err();
  const fs::path process = fmt::format("/proc/{}", program.id());
  Slope bytes, descriptors, threads;
  std::uintmax_t lines = 0;
  double moved = now();
  for (const double start = now(); now() < start + seconds;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_FALSE(program.ends(0)) << program.err();
    if (random_() % 20 == 0) {
      program.send_to_all(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 3000));
      program.send_to_all(SIGCONT);
    }
    std::error_code ignored;
    const std::uintmax_t written = fs::file_size(run_in("runs") / "metrics.jsonl", ignored);
    if (std::exchange(lines, written) != written) moved = now();
    ASSERT_LT(now() - moved, 60) << "nothing happens any more: " << program.err();
    if (now() < start + seconds / 2) continue;
    bytes.add(now(), last_number(heap));
    descriptors.add(now(), entries(process / "fd"));
    threads.add(now(), entries(process / "task"));
  }
  fmt::print("life {}: {:.0f} bytes, {:.4f} descriptors, {:.4f} threads more each second, over {:.0f} s\n", life,
             bytes.per_second(), descriptors.per_second(), threads.per_second(), bytes.span());
  EXPECT_LT(bytes.growth(), 1 << 20) << "the heap grows";
  EXPECT_LT(descriptors.growth(), 1) << "descriptors are not closed";
  EXPECT_LT(threads.growth(), 1) << "threads do not end";
  const bool killed = random_() % 2 == 0;
  program.send(killed ? SIGKILL : SIGTERM);
  ASSERT_TRUE(program.ends(20)) << program.err();
  EXPECT_EQ(program.code(), killed ? 128 + SIGKILL : 128 + SIGTERM) << program.err();
  EXPECT_TRUE(program.is_alone(5));
}

TEST_F(Soak, NothingGrowsAndNothingHangs) {
  const double a_life = std::max(30.0, seconds_ / 8);
  const double start = now();
  for (int life = 0; now() < start + seconds_ && !HasFailure(); ++life) live_for(a_life, life);
}

}  // namespace
}  // namespace millrace::test
