// Networks with an auxiliary head: trained with a loss there, measured by name, and used without it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "command.h"
#include "weight_formats/safetensors.h"

namespace millrace::test {
namespace {

constexpr const char* kNetwork = R"(
defaults = { classes = 10 }
input    = { channels = 3, height = 32, width = 32 }
layers   = [
  { op = "conv", out = 8, kernel = 3, stride = 2 }, { op = "batch_norm" }, { name = "body", op = "relu" },
  { name = "side", block = "head", auxiliary = true },
  { name = "deep", op = "conv", out = 12, kernel = 3 }, { op = "relu" }, { name = "main", block = "head" },
]
[block.head]
layers = [ { op = "global_average_pool" }, { name = "fc", op = "linear", out = "${classes}" } ]
)";

constexpr const char* kSide = R"([train.forward_backward]
auxiliary = [{ output = "side.fc", weight = 0.3 }, { weight = 0.5, loss = { type = "focal", gamma = 1 } }]
)";

class AuxiliaryHead : public testing::Test {
 protected:
  AuxiliaryHead() { std::ofstream(folder_ / "network.toml") << kNetwork; }

  Outcome run(const std::string& runs, const std::string& tables, std::vector<std::string> options = {}) const {
    const std::string file = folder_ / (runs + ".toml");
    std::ofstream(file) << fmt::format(
        "extends = \"{}\"\n[run]\nepochs = 1\nfolder = \"{}\"\n[network]\nuse = \"network.toml\"\n[data]\npath = \"{}\"\n{}",
        pipeline("quickstart.toml"), folder_ / runs, shapes(), tables);
    options.insert(options.begin(), {tool("pipeline-run"), file, "--json"});
    return run_command(options);
  }
  std::map<std::string, std::vector<float>> weights(const std::string& runs) const {
    std::map<std::string, std::vector<float>> all;
    for (NamedTensor& tensor : read_safetensors(find_file(folder_ / runs, "weights.safetensors")).tensors) {
      all[tensor.name] = std::move(tensor.values);
    }
    return all;
  }

  const TemporaryFolder folder_;
};

TEST_F(AuxiliaryHead, TrainsToTheSameBitsInProcesses) {
  std::string first;
  for (const std::string processes : {"1", "2"}) {
    const Outcome outcome = run("trained" + processes, kSide, {"--devices", "cpu*2", "--processes", processes});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::string told;
    for (const auto& step : events(outcome, "step")) {
      told += fmt::format("{} {} {}\n", step.at("loss").get<double>(), step.at("loss.side.fc").get<double>(),
                          step.at("loss.focal").get<double>());
    }
    EXPECT_FALSE(told.empty());
    for (const auto& pass : events(outcome, "validate")) EXPECT_FALSE(pass.contains("loss.side.fc"));
    if (first.empty()) first = told;
    EXPECT_EQ(told, first);
  }
  EXPECT_EQ(weights("trained1"), weights("trained2"));
}

// A network that was trained with its head goes on without: the head stays as it was, and is not needed.
TEST_F(AuxiliaryHead, IsNotNeededAfterwards) {
  ASSERT_EQ(run("with", kSide).code, 0);
  const auto trained = weights("with");
  ASSERT_TRUE(trained.contains("side.fc.weight"));
  const Outcome outcome = run("without", "", {"--weights", find_file(folder_ / "with", "weights.safetensors")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto then = weights("without");
  EXPECT_EQ(then.at("side.fc.weight"), trained.at("side.fc.weight"));
  EXPECT_NE(then.at("main.fc.weight"), trained.at("main.fc.weight"));
  for (const auto& step : events(outcome, "step")) EXPECT_FALSE(step.contains("loss.side.fc"));

  std::vector<NamedTensor> tensors = read_safetensors(find_file(folder_ / "with", "weights.safetensors")).tensors;
  std::erase_if(tensors, [](const NamedTensor& tensor) { return tensor.name.starts_with("side."); });
  write_safetensors(folder_ / "headless.safetensors", tensors);
  EXPECT_EQ(run("headless", "", {"--weights", folder_ / "headless.safetensors"}).code, 0);
  const Outcome lacking = run("lacking", kSide, {"--weights", folder_ / "headless.safetensors"});
  EXPECT_EQ(lacking.code, 2);
  EXPECT_NE(lacking.err.find("'side.fc.weight' (10 x 8) is missing"), std::string::npos) << lacking.err;
}

TEST_F(AuxiliaryHead, IsNamedByItsLayer) {
  const Outcome outcome = run("wrong", "[train.forward_backward]\nauxiliary = [{ output = \"side\" }]\n", {"--check"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("[train.forward_backward]: 'auxiliary': network 'network' has no layer 'side'; nearest is"),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace millrace::test
