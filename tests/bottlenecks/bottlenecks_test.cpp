// Twelve runs with one bottleneck each. The epoch's line and the profile's report name it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "config/plan.h"
#include "image_bytes.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "pipelines/command.h"
#include "planted.h"
#include "report.h"
#include "run/prepare.h"
#include "run/runner.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// The run's own reports.
class Listener final : public RunObserver {
 public:
  void epoch(const EpochEvent& event) override { line = event.waits_for; }
  void telemetry(const TelemetryEvent& event) override { builder.add(event); }
  std::string line;
  ProfileBuilder builder;
};

struct Said {
  std::string line;
  Profile profile;
};

// Processor seconds: of all programs since the machine started, and of this one.
struct Processors {
  double all = 0, own = 0;

  static Processors now() {
    std::ifstream file("/proc/stat");
    std::string word;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
    file >> word >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen;
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return {(user + nice + system + interrupts + soft + stolen) / static_cast<double>(::sysconf(_SC_CLK_TCK)),
            seconds(used.ru_utime) + seconds(used.ru_stime)};
  }
};

bool is_named(const Said& said, const std::string& name) {
  return said.line.starts_with(name + " ") && said.profile.bottleneck.text().starts_with(name + " ");
}

constexpr double kOthers = 0.15;  // processors that other programs may use without disturbing

class Bottlenecks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    registry_ = std::make_unique<Registry>();
    load_all_plugins(*registry_);
    add_planted(*registry_);
    drawn_ = std::make_unique<TemporaryFolder>();
  }
  static void TearDownTestSuite() {
    registry_ = nullptr;
    drawn_ = nullptr;
  }

  // quickstart.toml with `images` images, an epoch of `steps` steps of 20, and these keys.
  Said run(const std::vector<std::string>& keys, const std::string& flow = "", int steps = 4) {
    std::ofstream file(folder_ / "pipeline.toml");
    file << "extends = \"" << pipeline("quickstart.toml") << "\"\n[run]\nepochs = 1\n";
    if (!flow.empty())
      file << "[train]\nflow = [\"read\", " << flow
           << ", \"batch\", \"forward_backward\", \"allreduce\", \"optimizer\", \"metrics\"]\n";
    file.close();
    std::vector<std::string> all = {"run.folder=" + (folder_ / "runs"),
                                    "data.path=" + shapes(),
                                    "train.batch.size=20",
                                    "train.read.limit=" + std::to_string(20 * steps),
                                    "validate.read.limit=20",
                                    "observe.console.quiet=true",
                                    "run.devices=cpu",
                                    "checkpoint.every=never",
                                    "validate.every=never"};
    all.insert(all.end(), keys.begin(), keys.end());
    const Pipeline plan = load_pipeline(folder_ / "pipeline.toml", all, *registry_);
    const auto listener = std::make_shared<Listener>();
    RunOptions options;
    options.hooks.observer = listener;
    const auto prepared = prepare(plan, *registry_, options);
    run_once(*prepared);
    return {listener->line, listener->builder.build(2)};
  }

  // The same, repeated after a while if other programs used part of a processor. The line and the profile must name this
  // bottleneck.
  Said named(const std::string& name, const std::vector<std::string>& keys, const std::string& flow = "", int steps = 4) {
    for (int time = 1;; ++time) {
      const Processors before = Processors::now();
      const auto begin = std::chrono::steady_clock::now();
      const Said said = run(keys, flow, steps);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      const Processors after = Processors::now();
      const double others = (after.all - before.all - (after.own - before.own)) / took.count();
      if (is_named(said, name)) return said;
      if (time == 6 || others < kOthers) {
        ADD_FAILURE() << "the line: " << said.line << "\n"
                      << report(said.profile) << "run " << time << "; other programs had " << others << " processors";
        return said;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200) * time);
    }
  }

  // The shapes, with one of every `one_of` training images replaced by noise of this side.
  static std::string with_noise(int side, int one_of) {
    const std::string made = *drawn_ / ("noise_of_" + std::to_string(side));
    if (fs::exists(made)) return made;
    fs::copy(shapes(), made, fs::copy_options::recursive);
    std::mt19937 random(1);
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3);
    for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(random());
    write_jpeg(*drawn_ / "noise.jpg", pixels, side, side, 90);
    int number = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(made) / "train")) {
      if (!entry.is_regular_file() || number++ % one_of != 0) continue;
      fs::copy_file(*drawn_ / "noise.jpg", entry.path(), fs::copy_options::overwrite_existing);
    }
    return made;
  }
  // A network that takes no time, so that only data can limit a run.
  static std::string tiny() {
    const std::string file = *drawn_ / "tiny.toml";
    std::ofstream(file) << R"(
defaults = { classes = 10 }
input    = { channels = 3, height = 32, width = 32 }
layers   = [{ op = "global_average_pool" }, { name = "fc", op = "linear", out = "${classes}" }]
)";
    return "network.use=" + file;
  }

  const TemporaryFolder folder_;
  static std::unique_ptr<TemporaryFolder> drawn_;
  static std::unique_ptr<Registry> registry_;
};
std::unique_ptr<TemporaryFolder> Bottlenecks::drawn_;
std::unique_ptr<Registry> Bottlenecks::registry_;

void expect_said(const Said& said, const std::string& text) {
  EXPECT_NE(summary(said.profile).find(text), std::string::npos) << report(said.profile);
}

TEST_F(Bottlenecks, ASlowDisk) {
  const Said said = named("read", {tiny(), "data.path=slowdisk://" + shapes()});
  expect_said(said, "they wait for the disk or the network");
}

TEST_F(Bottlenecks, ASlowStore) {
  const Said said = named("read", {tiny(), "data.path=farstore://" + shapes(), "run.io_threads=4"});
  expect_said(said, "One more I/O thread would give");
}

// Each image takes longer than other programs may delay the thread between two of them.
TEST_F(Bottlenecks, SlowDecoding) {
  const Said said = named("decode_image",
                          {tiny(), "data.path=" + with_noise(512, 1), "train.decode_image.size=[512, 512]", "run.threads=1",
                           "train.batch.size=8", "train.read.limit=48"},
                          R"("decode_image")");
  expect_said(said, "One more data thread would give");
}

TEST_F(Bottlenecks, OneHugeImageAmongSmallOnes) {
  const Said said = named("decode_image",
                          {tiny(), "data.path=" + with_noise(1500, 20), "train.decode_image.size=[32, 32]",
                           "train.decode_image.fit=exact", "run.threads=1"},
                          R"("decode_image")", 20);
  expect_said(said, "Few samples take most of its time");
}

TEST_F(Bottlenecks, HeavyAugmentation) {
  named("augment",
        {tiny(), "train.decode_image.size=[256, 256]", "train.decode_image.fit=exact", "train.augment.blur.sigma=[30, 30]",
         "train.augment.rotate=[-30, 30]", "run.threads=1"},
        "", 8);
}

TEST_F(Bottlenecks, ALockInAStage) {
  const Said said = named("locked", {tiny(), "run.threads=2"}, R"("decode_image", "locked")");
  expect_said(said, "they wait for a lock");
}

TEST_F(Bottlenecks, ASerialStageThatStarvesTheDevice) {
  const Said said = named("one_by_one", {tiny(), "run.threads=2"}, R"("decode_image", "one_by_one")");
  expect_said(said, "the one thread that a serial stage has");
}

TEST_F(Bottlenecks, FewCredits) {
  const Said said = named("free batches", {tiny(), "train.batch.buffers=1", "run.threads=8", "run.io_threads=64", "run.chunk=1",
                                           "data.path=farstore://" + shapes()});
  expect_said(said, "More `buffers` of [batch] would give");
}

TEST_F(Bottlenecks, AReplicaWithTooLargeAShare) {
  named("forward_backward[1]", {"run.devices=cpu*2", "run.load=[1, 9]", "train.batch.size=100", "train.read.limit=400"});
}

TEST_F(Bottlenecks, SumsOverASlowNetwork) { named("allreduce", {"run.devices=cpu*2", "train.allreduce.communicator=throttled"}); }

TEST_F(Bottlenecks, ASlowValidation) { named("validate", {"validate.every=1 steps", "validate.read.limit=130"}); }

TEST_F(Bottlenecks, CheckpointsOnASlowDisk) {
  named("checkpoint", {"checkpoint.every=1 steps", "checkpoint.folder=slowdisk://" + (folder_ / "checkpoints")});
}

}  // namespace
}  // namespace millrace::test
