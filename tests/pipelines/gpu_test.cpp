// A whole pipeline on GPUs, here simulated ones, through the same plugin interface as real ones. Every missing wait and every
// use of memory outside its lifetime ends such a run.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

#include "command.h"

namespace millrace::test {
namespace {

// Few multiplications, since loops on the host compute them: these tests check the places of pixels and numbers, not speed.
const std::string& small_network() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    std::ofstream(folder / "small.toml") << R"(
      input  = { channels = 3, height = 32, width = 32, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
      layers = [ { name = "block1", block = "down", filters = 8 }, { name = "block2", block = "down", filters = 16 },
                 { op = "global_average_pool" }, { name = "fc", op = "linear", out = "${classes}" } ]
      [block.down]
      layers = [ { op = "conv", out = "${filters}", kernel = 3, padding = "same", bias = false }, { op = "batch_norm" },
                 { op = "relu" }, { op = "max_pool", kernel = 2 } ])";
    return folder / "small.toml";
  }();
  return path;
}

class OnSimulatedGpus : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = std::filesystem::path(MILLRACE_BINARY_DIR) / "tests/simulated";
    if (!std::filesystem::exists(folder / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
    setenv("MILLRACE_PLUGIN_PATH", folder.c_str(), 1);
  }
  void TearDown() override { unsetenv("MILLRACE_PLUGIN_PATH"); }

  // With the small network, or with the quick start's if `more` selects it.
  static Outcome train(const std::string& devices, std::vector<std::string> more = {}) {
    return run_command(with({tool("pipeline-run"), pipeline("quickstart.toml"), "--json", "--devices", devices},
                            {"data.path=" + shapes(), "network.use=" + small_network(), "run.folder=", "run.epochs=1",
                             "run.precision=fp32", "train.batch.size=20", "train.read.limit=80", "validate.read.limit=40"},
                            more));
  }
  static Outcome train_quickstart(const std::string& devices, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--set", "network.use=quickstart"});
    return train(devices, more);
  }
  static double loss(const Outcome& outcome, const std::string& event) { return events(outcome, event).back().at("loss"); }
};

TEST_F(OnSimulatedGpus, TrainsAndValidatesAsOnTheCpu) {
  const Outcome cpu = train_quickstart("cpu"), gpu = train_quickstart("simulated:0");
  ASSERT_EQ(cpu.code, 0) << cpu.err;
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_EQ(events(gpu, "epoch").back().at("stream_hash"), events(cpu, "epoch").back().at("stream_hash"));
  EXPECT_NEAR(loss(gpu, "step"), loss(cpu, "step"), 0.02 * loss(cpu, "step"));
  EXPECT_NEAR(loss(gpu, "validate"), loss(cpu, "validate"), 0.02 * loss(cpu, "validate"));
}

// The largest excess difference between an epoch's seconds and the time from the previous epoch's end to its own.
double seconds_missed(const Outcome& outcome) {
  const auto epochs = events(outcome, "epoch");
  EXPECT_EQ(epochs.size(), 4U);
  const auto value = [](const auto& event, const char* key) { return event.at(key).template get<double>(); };
  double most = 0;
  for (std::size_t i = 1; i < epochs.size(); ++i) {
    const double passed = value(epochs[i], "elapsed_seconds") - value(epochs[i - 1], "elapsed_seconds");
    most = std::max(most, std::abs(value(epochs[i], "seconds") - passed) - (0.1 * passed + 0.02));
  }
  return most;
}

// The host finishes an epoch when it has submitted it. A busy machine may delay it between two epochs, but not in each run.
TEST_F(OnSimulatedGpus, AnEpochTakesUntilTheDeviceIsDone) {
  double missed = 1;
  for (int attempt = 0; attempt < 3 && missed > 0; ++attempt) {
    const Outcome outcome = succeeded(train_quickstart("simulated:0", {"--set", "run.epochs=4", "--set", "validate.every=end"}));
    missed = seconds_missed(outcome);
  }
  EXPECT_LE(missed, 0) << "seconds";
}

TEST_F(OnSimulatedGpus, TwoOfThemComputeWhatTwoReplicasOnTheCpuDo) {
  const Outcome cpu = train("cpu*2"), gpu = train("simulated");
  ASSERT_EQ(cpu.code, 0) << cpu.err;
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_NEAR(loss(gpu, "step"), loss(cpu, "step"), 0.02 * loss(cpu, "step"));
}

TEST_F(OnSimulatedGpus, RecordedStepsAndBf16TrainToo) {
  const Outcome eager = train("simulated:0", {"--set", "run.graphs=false"}), graphs = train("simulated:0");
  ASSERT_EQ(eager.code, 0) << eager.err;
  EXPECT_EQ(loss(eager, "step"), loss(graphs, "step"));
  const Outcome bf16 = succeeded(train("simulated:0", {"--set", "run.precision=bf16"}));
  EXPECT_NEAR(loss(bf16, "step"), loss(graphs, "step"), 0.1 * loss(graphs, "step"));
}

// ---- Images that stay on the device ----

// Two epochs of a training set of 50, and 20 validation images after each: with pixels from the host each time, or kept by
// devices.
class ImagesOnTheDevice : public OnSimulatedGpus {
 protected:
  struct Result {
    int code = -1;
    std::string err, weights;
    std::vector<nlohmann::json> stream_hashes, losses;
    friend bool operator==(const Result&, const Result&) = default;
  };

  static std::vector<std::string> flow(bool caches, bool mixes = false) {
    return {"--set", std::string("train.flow=[\"read\", \"decode_image\", ") + (caches ? "\"cache\", " : "") +
                         "\"augment\", \"batch\", " + (mixes ? "\"mix_images\", " : "") +
                         "\"forward_backward\", \"allreduce\", \"optimizer\", \"metrics\"]"};
  }

  Result run(const std::string& devices, const std::vector<std::string>& more, bool on_device, bool mixes = false) {
    const TemporaryFolder folder;
    std::vector<std::string> words = flow(on_device, mixes);
    const auto set = [&words](const std::string& assignment) { words.insert(words.end(), {"--set", assignment}); };
    set("run.folder=" + (folder / "runs"));
    set("run.epochs=2");
    set("train.read.limit=50");
    set("train.batch.last=keep");
    set("validate.read.limit=20");
    set("validate.batch.size=15");
    set("validate.forward.test_time=flip_translate");
    if (on_device) {
      set("train.cache.device=true");
      set("validate.flow=[\"read\", \"decode_image\", \"cache\", \"batch\", \"forward\", \"metrics\"]");
      set("validate.cache.device=true");
    }
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = train(devices, words);
    Result result{outcome.code, outcome.err, {}, {}, {}};
    result.weights = read_file(find_file(folder.path(), "weights.safetensors"));
    for (const auto& event : events(outcome, "epoch")) result.stream_hashes.push_back(event.at("stream_hash"));
    for (const auto& event : events(outcome, "validate")) result.losses.push_back(event.at("loss"));
    return result;
  }

  void expect_same(const std::string& devices, const std::vector<std::string>& more = {}, bool mixes = false) {
    const Result without = run(devices, more, false, mixes), with = run(devices, more, true, mixes);
    ASSERT_EQ(without.code, 0) << without.err;
    ASSERT_EQ(with.code, 0) << with.err;
    EXPECT_EQ(with.stream_hashes, without.stream_hashes);
    EXPECT_EQ(with.losses, without.losses);
    EXPECT_GE(with.losses.size(), 2U);
    EXPECT_FALSE(with.weights.empty());
    EXPECT_TRUE(with.weights == without.weights);
  }

  // The shapes, every tenth truncated.
  static std::string with_bad_samples(const TemporaryFolder& folder) {
    std::filesystem::copy(shapes(), folder.path(), std::filesystem::copy_options::recursive);
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path() / "train")) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (std::size_t i = 0; i < files.size(); i += 10) std::filesystem::resize_file(files[i], 100);
    return folder.path().string();
  }
};

TEST_F(ImagesOnTheDevice, TrainToTheSameBits) { expect_same("simulated:0"); }

TEST_F(ImagesOnTheDevice, TrainToTheSameBitsOnTwo) {
  expect_same("simulated",
              {"--set", "run.epochs=3", "--set", "train.augment.flip_x=0", "--set", "train.augment.alternating_flip=true",
               "--set", "train.augment.border=reflect", "--set", "train.batch.last=wrap"});
}

TEST_F(ImagesOnTheDevice, TrainToTheSameBitsWhenSamplesAreBad) {
  const TemporaryFolder folder;
  const std::string root = "data.path=" + with_bad_samples(folder);
  for (const char* policy : {"replace", "skip"}) {
    expect_same("simulated:0", {"--set", root, "--set", std::string("train.batch.bad_samples=") + policy, "--set",
                                "train.batch.bad_sample_budget=0.5"});
  }
}

TEST_F(ImagesOnTheDevice, TrainToTheSameBitsWhenSomeBatchesAreMixed) {
  expect_same("simulated:0", {"--set", "train.mix_images.mixup.chance=0.3", "--set", "train.mix_images.cutmix.chance=0.3"}, true);
}

TEST_F(ImagesOnTheDevice, AreReadFromBatchesOnTheCpu) { expect_same("cpu"); }

TEST_F(ImagesOnTheDevice, AreRefusedWhereAStageRecoloursThem) {
  const Result result = run("simulated:0", {"--set", "train.augment.brightness=[0.5, 1.5]"}, true);
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("[train.augment]: it changes pixels, and 'cache' before it has `device = true`"), std::string::npos)
      << result.err;
}

TEST_F(ImagesOnTheDevice, AreInTheBound) {
  const Outcome outcome = succeeded(train("simulated:0", [] {
    std::vector<std::string> words = flow(true);
    words.insert(words.end(), {"--set", "train.cache.device=true", "--check"});
    return words;
  }()));
  const std::string text = outcome.out + outcome.err;
  EXPECT_NE(text.find("images of [train] held on the device"), std::string::npos) << text;
}

TEST_F(OnSimulatedGpus, TheBoundSaysWhatEachDeviceHolds) {
  const Outcome outcome = succeeded(train("simulated:0", {"--check"}));
  const std::string text = outcome.out + outcome.err;
  EXPECT_NE(text.find("simulated:0 replica 0"), std::string::npos) << text;
  EXPECT_NE(text.find("activations, their gradients and workspaces"), std::string::npos) << text;
  EXPECT_NE(text.find("in all, of the host's memory"), std::string::npos) << text;
  EXPECT_NE(text.find("in all, of simulated:0's memory"), std::string::npos) << text;
}

// Other readers of the file see a few more texts next to the tensors.
TEST_F(OnSimulatedGpus, WeightsCarryWhatLibrariesChose) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("plans." + std::to_string(getpid()));
  const Outcome trained = succeeded(train("simulated:0", {"--set", "run.folder=" + folder.string()}));
  const std::filesystem::path weights = find_file(folder, "weights.safetensors");
  std::string text = read_file(weights);
  EXPECT_NE(text.find("plans of simulated: simulated"), std::string::npos);

  const Outcome again = succeeded(train("simulated:0", {"--weights", weights.string()}));
  EXPECT_EQ(again.err.find("warning"), std::string::npos) << again.err;
  const Outcome cpu = succeeded(train("cpu", {"--weights", weights.string()}));

  const std::size_t format = text.find("millrace plans 1");
  ASSERT_NE(format, std::string::npos);
  text.replace(format, 16, "millrace plans 9");
  std::ofstream(weights, std::ios::binary) << text;
  const Outcome other = succeeded(train("simulated:0", {"--weights", weights.string()}));
  EXPECT_NE(other.err.find("warning: the engines saved with these weights cannot be read"), std::string::npos) << other.err;
  std::filesystem::remove_all(folder);
}

TEST_F(OnSimulatedGpus, RecomputingActivationsTakesLessMemoryAndTrainsTheSame) {
  const auto bound = [](const Outcome& outcome) {
    std::smatch match;
    const std::string text = outcome.out + outcome.err;
    return std::regex_search(text, match, std::regex("([0-9.]+) MiB  simulated:0 replica 0 +activations")) ? std::stod(match[1])
                                                                                                           : 0;
  };
  const Outcome kept = train("simulated:0"), again = train("simulated:0", {"--set", "run.recompute=true"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(loss(again, "step"), loss(kept, "step"));
  EXPECT_EQ(loss(again, "validate"), loss(kept, "validate"));
  // The bound of training only: validation's larger batches need more.
  const double all = bound(train("simulated:0", {"--check", "--graph", "train"}));
  EXPECT_GT(all, 0);
  EXPECT_LT(bound(train("simulated:0", {"--check", "--graph", "train", "--set", "run.recompute=true"})), all);
}

}  // namespace
}  // namespace millrace::test
