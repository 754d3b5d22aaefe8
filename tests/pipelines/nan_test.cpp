// Non-finite values: the run's response, and whether their origin is named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <utility>

#include "command.h"
#include "running_program.h"
#include "weights/safetensors.h"

namespace millrace::test::nan_test {
namespace {

namespace fs = std::filesystem;

// Named and unnamed layers. A layer after `poisoned` plants `value` in its gradient where a huge one arrives.
std::string network_text(const std::string& poisoned = "", const std::string& value = "") {
  const std::vector<std::pair<std::string, std::string>> layers = {{"conv1", R"(op = "conv", out = 8, kernel = 3, stride = 2)"},
                                                                   {"bn1", R"(op = "batch_norm")"},
                                                                   {"relu", R"(op = "relu")"},
                                                                   {"conv2", R"(op = "conv", out = 8, kernel = 3, stride = 2)"},
                                                                   {"pool", R"(op = "global_average_pool")"},
                                                                   {"fc", R"(op = "linear", out = "${classes}")"}};
  std::string text = "input  = { channels = 3, height = 32, width = 32 }\nlayers = [";
  for (const auto& [name, rest] : layers) {
    text += fmt::format("{{ name = \"{}\", {} }},\n", name, rest);
    if (name == poisoned) text += fmt::format("{{ op = \"poison_gradient\", value = \"{}\" }},\n", value);
  }
  return text + "]\n";
}

// quickstart.toml with stages that plant values: 2 epochs of 4 steps, a checkpoint after every second step.
class NotFinite : public testing::Test {
 protected:
  NotFinite() {
    std::ofstream(folder_ / "network.toml") << network_text();
    std::ofstream(folder_ / "poison.toml") << "extends = \"" << pipeline("quickstart.toml") << R"("
[checkpoint]
every = "2 steps"
[train]
flow = ["read", "decode_image", "augment", "poison_input", "batch", "forward_backward", "allreduce", "poison", "clip_gradients",
        "optimizer", "metrics"]
[train.clip_gradients]
global_norm = 1e30
)";
    setenv("MILLRACE_PLUGIN_PATH", MILLRACE_BINARY_DIR "/tests/poison", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ~NotFinite() override { unsetenv("MILLRACE_PLUGIN_PATH"); }  // NOLINT(concurrency-mt-unsafe)

  // The precision of a place: alternates, with the order reversed in each round over `kinds`.
  std::string precision(std::size_t place, std::size_t kinds) const {
    static const bool has_bf16 = !lacks_bf16(run("check", {"run.precision=bf16"}, {"--check"}));
    return (place + place / kinds) % 2 == 1 && has_bf16 ? "run.precision=bf16" : "run.precision=fp32";
  }

  Outcome run(const std::string& runs, const std::vector<std::string>& set, const std::vector<std::string>& options = {}) const {
    return run_command(with(with({tool("pipeline-run"), folder_ / "poison.toml", "--json"},
                                 {"data.path=" + shapes(), "network.use=" + (folder_ / "network.toml"),
                                  "run.folder=" + (folder_ / runs), "run.epochs=2"}),
                            set, options));
  }
  fs::path run_in(const std::string& runs) const { return newest_run(folder_.path() / runs); }
  // The output of --explain-nan for a run that has ended by itself.
  std::string explained(const std::string& runs, const std::vector<std::string>& set) const {
    const Outcome ended = run(runs, set);
    EXPECT_EQ(ended.code, 1) << ended.err;
    EXPECT_NE(ended.err.find("--explain-nan"), std::string::npos) << ended.err;
    return succeeded(run(runs, set, {"--explain-nan", run_in(runs).string()})).out;
  }

  const TemporaryFolder folder_;
};

const std::vector<std::string> kGradients = {"train.poison.step=3"};

// Number of places of each kind: 2, or 50 with MILLRACE_NAN=50.
std::size_t places() {
  const char* const long_form = std::getenv("MILLRACE_NAN");                         // NOLINT(concurrency-mt-unsafe)
  return static_cast<std::size_t>(long_form != nullptr ? std::atoi(long_form) : 2);  // NOLINT(cert-err34-c)
}

// A position in the first epoch, of 4 batches of 100.
std::size_t place_in_epoch(std::size_t place) { return (250 + 149 * place) % 400; }

TEST_F(NotFinite, StopsTheRunAndNamesStepCheckpointAndCommand) {
  const Outcome outcome = run("runs", kGradients);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("step 3: gradient_norm is nan; the newest checkpoint is '"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("step-000000002'; " MILLRACE_BINARY_DIR "/bin/pipeline-run "), std::string::npos) << outcome.err;
  EXPECT_TRUE(find_file(folder_ / "runs", "weights.safetensors").empty());
}

// The one step's values are finite, but the updated weights are not.
TEST_F(NotFinite, AValidationEndsTheRunAsATrainingStepDoes) {
  const std::vector<std::string> set = {"run.epochs=3", "run.best=validate.loss", "stop.max_steps=1",
                                        "train.optimizer.learning_rate=1e30"};
  const Outcome outcome = run("runs", set);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("step 1: the loss of [validate] is nan; the run has no checkpoint"), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(find_file(folder_ / "runs", "best.safetensors").empty());
  std::vector<std::string> skips = set;
  skips.emplace_back("run.on_nan=skip");
  const Outcome skipped = succeeded(run("skips", skips));
  EXPECT_NE(skipped.err.find("[validate]: loss is nan at step 1; "), std::string::npos) << skipped.err;
  EXPECT_TRUE(find_file(folder_ / "skips", "best.safetensors").empty());
}

// Without a stage that sums all gradients; the updates check them.
TEST_F(NotFinite, AGradientEndsTheRunInItsStepWithoutAStageThatMeasuresAll) {
  const std::string simulated = MILLRACE_BINARY_DIR "/tests/simulated";
  std::vector<std::string> devices = {"cpu", "cpu*2"};
  if (fs::exists(simulated)) devices.emplace_back("simulated:0");
  const std::string path = MILLRACE_BINARY_DIR "/tests/poison:" + simulated;
  setenv("MILLRACE_PLUGIN_PATH", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  std::ofstream(folder_ / "poisoned.toml") << network_text("conv2", "inf");
  for (const std::string& device : devices) {
    const Outcome outcome = run("runs of " + device, {"run.devices=" + device, "network.use=" + (folder_ / "poisoned.toml"),
                                                      "train.poison_input.position=250", "train.clip_gradients={norm=1e30}",
                                                      "train.forward_backward.loss={type=\"huge_gradient\"}"});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("step 3: a gradient is not finite; the newest checkpoint is '"), std::string::npos) << outcome.err;
  }
}

// Both processes detect it; the first one knows the checkpoints.
TEST_F(NotFinite, OfSeveralProcessesTheFirstNamesCheckpointAndCommand) {
  std::ofstream(folder_ / "poisoned.toml") << network_text("conv2", "inf");
  const Outcome outcome =
      run("runs",
          {"run.devices=cpu*2", "network.use=" + (folder_ / "poisoned.toml"), "train.poison_input.position=250",
           "train.clip_gradients={norm=1e30}", "train.forward_backward.loss={type=\"huge_gradient\"}"},
          {"--processes", "2"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("step 3: a gradient is not finite; the newest checkpoint is '"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("has no checkpoint"), std::string::npos) << outcome.err;
  const std::string command = "--explain-nan " + run_in("runs").string();
  EXPECT_NE(outcome.err.find(command), std::string::npos) << outcome.err;
}

TEST_F(NotFinite, AStepThatIsSkippedLeavesTheWeightsAsTheyWere) {
  const std::vector<std::string> set = {"train.poison.step=4", "run.on_nan=skip"};
  std::vector<std::string> three = set, four = set;
  three.emplace_back("stop.max_steps=3");
  four.emplace_back("stop.max_steps=4");
  ASSERT_EQ(run("three", three).code, 0);
  const Outcome skipped = succeeded(run("four", four));
  EXPECT_NE(skipped.err.find("step 4: gradient_norm is nan: steps whose gradients are not finite update nothing"),
            std::string::npos)
      << skipped.err;
  const auto before = read_safetensors(find_file(folder_ / "three", "weights.safetensors").string()).tensors;
  const auto after = read_safetensors(find_file(folder_ / "four", "weights.safetensors").string()).tensors;
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].name.find("running_") != std::string::npos) continue;  // from a batch with finite values
    EXPECT_EQ(before[i].values, after[i].values) << before[i].name;
  }
}

TEST_F(NotFinite, SkippingTakesAStageThatLeavesOutUpdates) {
  const Outcome outcome = run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--check", "--set",
                                       "data.path=" + shapes(), "--set", "run.on_nan=skip"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("bounds the norm of all gradients, but [train] has none"), std::string::npos) << outcome.err;
}

TEST_F(NotFinite, TheRunGoesBackWithASmallerRateUntilItMayNoMore) {
  std::vector<std::string> set = kGradients;  // repeats each time
  set.insert(set.end(), {"run.on_nan=rollback", "run.nan_limit=2"});
  const Outcome outcome = run("runs", set);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("after it returned to a checkpoint 2 times"), std::string::npos) << outcome.err;
  std::vector<double> rates;
  for (const auto& step : events(outcome, "step")) {
    if (step.at("step") == 3) rates.push_back(step.at("learning_rate"));
  }
  ASSERT_EQ(rates.size(), 3U);
  EXPECT_NEAR(rates[1], 0.5 * rates[0], 1e-12);
  EXPECT_NEAR(rates[2], 0.25 * rates[0], 1e-12);
  double before = 0;  // it was once reset to the checkpoint's, so that [stop] max_time ignored abandoned time
  for (const auto& step : events(outcome, "step")) {
    EXPECT_GE(step.at("elapsed_seconds"), before) << step.dump();
    before = step.at("elapsed_seconds");
  }
}

// The newest one may already hold bad values.
TEST_F(NotFinite, TheRunGoesFurtherBackWhereTheNewestCheckpointDidNotHelp) {
  const Outcome outcome = run("runs", {"train.poison.step=5", "run.on_nan=rollback", "run.nan_limit=3"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  std::vector<std::uint64_t> behind;
  for (const auto& resume : events(outcome, "resume")) behind.push_back(resume.at("step"));
  EXPECT_EQ(behind, (std::vector<std::uint64_t>{4, 2, 4})) << "the last one was written again";
  EXPECT_NE(outcome.err.find("step-000000002', with 0.25 times"), std::string::npos) << outcome.err;
}

// Later ones still exist, but belong to an abandoned branch.
TEST_F(NotFinite, ARunBehindAnOlderCheckpointGoesBackToThatOne) {
  ASSERT_EQ(run("runs", {"checkpoint.keep=9"}).code, 0);
  const fs::path checkpoints = run_in("runs") / "checkpoints";
  const Outcome outcome = run("runs", {"checkpoint.keep=9", "train.poison.step=3", "run.on_nan=rollback", "run.nan_limit=1"},
                              {"--resume", (checkpoints / "step-000000002").string(), "--allow-change", "train.poison"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  std::vector<std::uint64_t> behind;
  for (const auto& resume : events(outcome, "resume")) behind.push_back(resume.at("step"));
  EXPECT_EQ(behind, (std::vector<std::uint64_t>{2, 2}));
  EXPECT_NE(outcome.err.find("after it returned to a checkpoint 1 time (run.nan_limit)"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("the newest checkpoint is '" + (checkpoints / "step-000000002").string()), std::string::npos)
      << outcome.err;
}

// The best was found after step 4, where the run goes back to first, and then to step 3.
TEST_F(NotFinite, TheBestWeightsOfABranchThatWentWrongAreSetAside) {
  const Outcome outcome = run("runs", {"checkpoint.every=3 steps", "run.best=validate.loss", "train.poison.step=6",
                                       "run.on_nan=rollback", "run.nan_limit=2", "run.nan_rate_factor=0.1"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const fs::path aside = run_in("runs") / "best-step-4.safetensors", best = run_in("runs") / "best.safetensors";
  EXPECT_NE(outcome.err.find(fmt::format(" after step 4, are in '{}' now; the next value counts as the best", aside.string())),
            std::string::npos)
      << outcome.err;
  ASSERT_TRUE(fs::exists(aside));
  ASSERT_TRUE(fs::exists(best));
  EXPECT_NE(read_file(aside), read_file(best)) << "with another rate";
}

TEST_F(NotFinite, ThePlaceWhereItBeginsIsNamed) {
  const std::string gradient = explained("gradient", kGradients);
  EXPECT_NE(gradient.find("step-000000002': step 3: gradient_norm is nan"), std::string::npos) << gradient;
  EXPECT_NE(gradient.find("each layer alone is finite"), std::string::npos) << "a stage has planted it: " << gradient;

  const std::string input = explained("input", {"train.poison_input.index=0"});  // in each epoch, at any position
  EXPECT_NE(input.find("forward: layer 'conv1' (conv) is the first whose output is not finite"), std::string::npos) << input;
}

TEST_F(NotFinite, AnInputIsNamedWithItsStepSampleAndFirstLayer) {
  for (std::size_t i = 0; i < places(); ++i) {
    const std::size_t position = place_in_epoch(i), step = position / 100 + 1;
    const std::string text =
        explained(fmt::format("input{}", i), {fmt::format("train.poison_input.noise_at={}", position), precision(i, 1)});
    EXPECT_NE(text.find(fmt::format("step {}: loss is nan\n", step)), std::string::npos) << text;
    const std::string expected =
        fmt::format("step {}, forward: layer 'conv1' (conv) is the first whose output is not finite\n", step);
    EXPECT_NE(text.find(expected), std::string::npos) << text;
    EXPECT_NE(text.find("before it: the network's input"), std::string::npos) << text;
    EXPECT_NE(text.find("first in sample "), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format(", epoch 1, position {})", position)), std::string::npos) << text;
  }
}

// Weights, losses and the gradients of all later layers are finite.
TEST_F(NotFinite, AGradientIsNamedWithItsLayerAndStep) {
  const std::vector<std::pair<std::string, std::string>> layers = {
      {"conv2", "conv"}, {"fc", "linear"}, {"conv1", "conv"}, {"bn1", "batch_norm"}};
  for (std::size_t i = 0; i < places(); ++i) {
    const auto& [layer, op] = layers[i % layers.size()];
    const std::size_t position = place_in_epoch(i), step = position / 100 + 1;
    const std::string value = i / layers.size() % 2 == 0 ? "nan" : "inf";
    SCOPED_TRACE(fmt::format("{} after {}, at position {}", value, layer, position));
    std::ofstream(folder_ / "poisoned.toml") << network_text(layer, value);
    const std::string text =
        explained(fmt::format("gradient{}", i),
                  {"network.use=" + (folder_ / "poisoned.toml"), fmt::format("train.poison_input.position={}", position),
                   "train.forward_backward.loss={type=\"huge_gradient\"}", precision(i, layers.size())});
    EXPECT_NE(text.find(fmt::format("step {}: gradient_norm is ", step)), std::string::npos) << text;
    const std::string expected =
        fmt::format("step {}, backward: layer '{}' ({}) is the first with a gradient that is not finite\n", step, layer, op);
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
}

TEST_F(NotFinite, AWeightIsNamedWithItsLayerAndStep) {
  const std::vector<std::string> layers = {"conv1", "bn1", "conv2", "fc"};
  for (std::size_t i = 0; i < places(); ++i) {
    const std::string& layer = layers[i % layers.size()];
    const std::size_t step = 1 + (i / layers.size()) % 6;
    const std::string runs = fmt::format("weight{}", i);
    const std::string text =
        explained(runs, {fmt::format("train.poison.step={}", step), fmt::format("train.poison.parameter={}.weight", layer),
                         precision(i, layers.size())});
    const std::string expected = fmt::format("step {}, before it begins: '{}.weight' of layer '{}'", step + 1, layer, layer);
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
}

TEST_F(NotFinite, ALossIsNamedWithItsStep) {
  for (std::size_t i = 0; i < places(); ++i) {
    const std::size_t position = place_in_epoch(i);
    const std::string text =
        explained(fmt::format("loss{}", i), {fmt::format("train.poison_input.position={}", position),
                                             "train.forward_backward.loss={type=\"poison_loss\"}", precision(i, 1)});
    const std::string wrong = fmt::format("step {}: loss is nan\n", position / 100 + 1);
    EXPECT_NE(text.find(wrong), std::string::npos) << text;
    const std::string expected =
        fmt::format("step {}, forward: the loss 'poison_loss' is nan, but the network's output is finite: ", position / 100 + 1);
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
}

// Training does not read running statistics, so the loss does not show it.
TEST_F(NotFinite, AStatisticIsNamedThoughEveryLossIsFinite) {
  for (std::size_t i = 0; i < places(); ++i) {
    const std::size_t step = 1 + (2 + 5 * i) % 8;  // 3, and then the last one
    const std::string name = i % 2 == 0 ? "bn1.running_mean" : "bn1.running_var";
    const std::string text =
        explained(fmt::format("statistic{}", i),
                  {fmt::format("train.poison.step={}", step), fmt::format("train.poison.parameter={}", name), precision(i, 2)});
    EXPECT_NE(text.find(": all losses and gradients are finite, but not all weights\n"), std::string::npos) << text;
    const std::string when = step == 8 ? "after the last step" : fmt::format("step {}, before it begins", step + 1);
    EXPECT_NE(text.find(fmt::format("{}: '{}' of layer 'bn1' is not finite: none of 8 values", when, name)), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace millrace::test::nan_test
