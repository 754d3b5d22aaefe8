// A whole pipeline on GPUs: on simulated ones here, through the same plugin interface as real ones. Every missing wait and every
// use of memory outside its lifetime ends such a run.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "command.h"

namespace millrace::test {
namespace {

class OnSimulatedGpus : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = std::filesystem::path(MILLRACE_BINARY_DIR) / "tests/simulated";
    if (!std::filesystem::exists(folder / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
    setenv("MILLRACE_PLUGIN_PATH", folder.c_str(), 1);
  }
  void TearDown() override { unsetenv("MILLRACE_PLUGIN_PATH"); }

  static Outcome train(const std::string& devices, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {tool("pipeline-run"),
                                          pipeline("quickstart.toml"),
                                          "--json",
                                          "--devices",
                                          devices,
                                          "--set",
                                          "data.root=" + shapes(),
                                          "--set",
                                          "run.folder=",
                                          "--set",
                                          "run.epochs=1",
                                          "--set",
                                          "run.precision=fp32",
                                          "--set",
                                          "train.batch.size=20",
                                          "--set",
                                          "train.read.limit=80",
                                          "--set",
                                          "validate.read.limit=40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }
  static double loss(const Outcome& outcome, const std::string& event) { return events(outcome, event).back().at("loss"); }
};

TEST_F(OnSimulatedGpus, TrainsAndValidatesAsOnTheCpu) {
  const Outcome cpu = train("cpu"), gpu = train("simulated:0");
  ASSERT_EQ(cpu.code, 0) << cpu.err;
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_EQ(events(gpu, "epoch").back().at("stream_hash"), events(cpu, "epoch").back().at("stream_hash"));
  EXPECT_NEAR(loss(gpu, "step"), loss(cpu, "step"), 0.02 * loss(cpu, "step"));
  EXPECT_NEAR(loss(gpu, "validate"), loss(cpu, "validate"), 0.02 * loss(cpu, "validate"));
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
  const Outcome bf16 = train("simulated:0", {"--set", "run.precision=bf16"});
  ASSERT_EQ(bf16.code, 0) << bf16.err;
  EXPECT_NEAR(loss(bf16, "step"), loss(graphs, "step"), 0.1 * loss(graphs, "step"));
}

TEST_F(OnSimulatedGpus, TheBoundSaysWhatEachDeviceHolds) {
  const Outcome outcome = train("simulated:0", {"--check"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string text = outcome.out + outcome.err;
  EXPECT_NE(text.find("simulated:0 replica 0"), std::string::npos) << text;
  EXPECT_NE(text.find("activations, their gradients and workspaces"), std::string::npos) << text;
  EXPECT_NE(text.find("in all, of the host's memory"), std::string::npos) << text;
  EXPECT_NE(text.find("in all, of simulated:0's memory"), std::string::npos) << text;
}

// The file's other readers see a few more texts beside the tensors.
TEST_F(OnSimulatedGpus, WeightsCarryWhatLibrariesChose) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("plans." + std::to_string(getpid()));
  const Outcome trained = train("simulated:0", {"--set", "run.folder=" + folder.string()});
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::filesystem::path weights;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") weights = entry.path();
  }
  std::stringstream bytes;
  bytes << std::ifstream(weights, std::ios::binary).rdbuf();
  std::string text = bytes.str();
  EXPECT_NE(text.find("plans of simulated: simulated"), std::string::npos);

  const Outcome again = train("simulated:0", {"--weights", weights.string()});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.err.find("warning"), std::string::npos) << again.err;
  const Outcome cpu = train("cpu", {"--weights", weights.string()});
  EXPECT_EQ(cpu.code, 0) << cpu.err;

  const std::size_t format = text.find("millrace plans 1");
  ASSERT_NE(format, std::string::npos);
  text.replace(format, 16, "millrace plans 9");
  std::ofstream(weights, std::ios::binary) << text;
  const Outcome other = train("simulated:0", {"--weights", weights.string()});
  EXPECT_EQ(other.code, 0) << other.err;
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
  const double all = bound(train("simulated:0", {"--check"}));
  EXPECT_GT(all, 0);
  EXPECT_LT(bound(train("simulated:0", {"--check", "--set", "run.recompute=true"})), all);
}

}  // namespace
}  // namespace millrace::test
