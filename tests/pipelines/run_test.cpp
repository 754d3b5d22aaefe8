// Guarantees of a run of a whole pipeline, seen from outside.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "command.h"
#include "running_program.h"
#include "weights/safetensors.h"

namespace millrace::test {
namespace {

// quickstart.toml, made small.
Outcome quickstart(std::vector<std::string> more, const std::string& folder = "", const Interruption& interruption = {}) {
  return run_command(with({tool("pipeline-run"), pipeline("quickstart.toml"), "--json"},
                          {"data.path=" + shapes(), "run.folder=" + folder, "run.epochs=1"}, more),
                     interruption);
}

std::string weights_of(const std::string& folder) { return find_file(folder, "weights.safetensors"); }

std::string stream_hash(const Outcome& outcome) { return events(outcome, "epoch").at(0).at("stream_hash"); }

TEST(Run, WritesItsFolderAndTheEventsOfTheContract) {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(quickstart({}, folder / "runs"));
  EXPECT_EQ(events(outcome, "start").size(), 1U);
  EXPECT_EQ(events(outcome, "step").size(), 4U);
  EXPECT_EQ(events(outcome, "epoch").size(), 1U);
  EXPECT_EQ(events(outcome, "validate").size(), 1U);
  EXPECT_EQ(events(outcome, "end").size(), 1U);
  const auto step = events(outcome, "step").back();
  for (const char* key : {"epoch", "step", "loss", "accuracy", "learning_rate", "images_per_second", "elapsed_seconds"}) {
    EXPECT_TRUE(step.contains(key)) << key;
  }
  const auto validate = events(outcome, "validate").back();
  for (const char* key : {"epoch", "step", "loss", "accuracy", "top5", "images_per_second", "stream_hash"}) {
    EXPECT_TRUE(validate.contains(key)) << key;
  }
  const std::string weights = weights_of(folder / "runs");
  ASSERT_FALSE(weights.empty());
  const std::filesystem::path run = std::filesystem::path(weights).parent_path();
  EXPECT_TRUE(std::filesystem::exists(run / "metrics.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(run / "pipeline.toml"));
  EXPECT_TRUE(std::filesystem::exists(run / "card.md"));
}

TEST(Run, IsRefusedWhereBatchNormalisationWouldSeeOneValue) {
  const TemporaryFolder folder;
  std::ofstream(folder / "net.toml") << R"(input  = { channels = 3, height = 32, width = 32 }
layers = [ { op = "global_average_pool" }, { name = "bn", op = "batch_norm" }, { op = "linear", out = "${classes}" } ]
)";
  const std::vector<std::string> words = {
      "--check", "--set", "network.use=" + (folder / "net.toml"), "--set", "train.batch.size=20", "--set"};
  const auto with = [&](const std::string& setting) {
    std::vector<std::string> all = words;
    all.push_back(setting);
    return quickstart(all);
  };
  const Outcome refused = with("train.forward_backward.micro_batches=20");
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("net.toml:2:44: layer 'bn': batch normalisation over one value per channel"), std::string::npos)
      << refused.err;
  const Outcome validated = succeeded(with("validate.batch.size=1"));
}

TEST(Run, WritesWhatWasTrainedWhenTheValidationFails) {
  const TemporaryFolder folder;
  std::filesystem::copy(shapes(), folder.path() / "shapes", std::filesystem::copy_options::recursive);
  const std::string image = [&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path() / "shapes/test"))
      if (entry.is_regular_file()) return entry.path().string();
    return std::string();
  }();
  std::ofstream(image) << "no image";
  const Outcome outcome = quickstart(
      {"--set", "data.path=" + (folder / "shapes"), "--set", "validate.before=false", "--set", "validate.batch.bad_samples=fail"},
      folder / "runs");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("; the weights of step 4 are in '"), std::string::npos) << outcome.err;
  EXPECT_FALSE(find_file(folder / "runs", "weights-step-4.safetensors").empty());
}

TEST(Run, ExplainsNoRunThatIsNotThere) {
  const Outcome outcome = quickstart({"--explain-nan", "runs/nosuch"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_NE(outcome.err.find("--explain-nan: 'runs/nosuch' is not a folder of a run"), std::string::npos) << outcome.err;
}

TEST(Run, TakesNoWeightsThatAreNotThere) {
  const Outcome outcome = quickstart({"--weights", "nosuch.pth"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_NE(outcome.err.find("--weights: file 'nosuch.pth' does not exist"), std::string::npos) << outcome.err;
}

TEST(Run, TheStreamIsTheSameForAnyNumberOfThreadsAndReplicas) {
  const Outcome one = succeeded(quickstart({"--set", "run.threads=1"}));
  const std::vector<std::vector<std::string>> others = {{"--set", "run.threads=2"},
                                                        {"--set", "run.threads=8", "--set", "run.io_threads=4"},
                                                        {"--set", "run.chunk=7"},
                                                        {"--devices", "cpu*2"}};
  for (const auto& other : others) {
    const Outcome outcome = succeeded(quickstart(other));
    EXPECT_EQ(stream_hash(outcome), stream_hash(one)) << other.back();
  }
  const Outcome seed = quickstart({"--set", "run.seed=2"});
  EXPECT_NE(stream_hash(seed), stream_hash(one));
}

TEST(Run, TwoRunsEndWithTheSameBits) {
  const TemporaryFolder a;
  const TemporaryFolder b;
  ASSERT_EQ(quickstart({}, a / "runs").code, 0);
  ASSERT_EQ(quickstart({"--set", "run.threads=4"}, b / "runs").code, 0);
  EXPECT_EQ(read_file(weights_of(a / "runs")), read_file(weights_of(b / "runs")));
}

// Batch systems and containers set these. oneDNN waits for ever for announced threads that it does not get.
TEST(Run, TrainsWithAsManyThreadsAsOpenMpMayHave) {
  for (const char* const variable : {"OMP_THREAD_LIMIT=1", "OMP_MAX_ACTIVE_LEVELS=0", "OMP_DYNAMIC=true", "OMP_NUM_THREADS=1"}) {
    Interruption limit;
    limit.limit = 120;
    const Outcome outcome =
        run_command({"/usr/bin/env", variable, tool("pipeline-run"), pipeline("quickstart.toml"), "--json", "--set",
                     "data.path=" + shapes(), "--set", "run.folder=", "--set", "run.epochs=1", "--set", "train.read.limit=100"},
                    limit);
    EXPECT_FALSE(outcome.killed) << variable;
    EXPECT_EQ(outcome.code, 0) << variable << outcome.err;
  }
}

TEST(Run, AStepOfTwoReplicasEqualsOneWithTheWholeBatch) {
  // One step, float32, no batch norm: the plan of issue and design alike.
  const TemporaryFolder folder;
  std::ofstream(folder / "plain.toml") << R"(
input  = { channels = 3, height = 32, width = 32, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
layers = [
  { name = "conv1", op = "conv", out = 16, kernel = 3, padding = 1 }, { op = "relu" }, { op = "max_pool", kernel = 2 },
  { name = "conv2", op = "conv", out = 32, kernel = 3, padding = 1 }, { op = "relu" }, { op = "global_average_pool" },
  { name = "fc", op = "linear", out = "${classes}" },
]
)";
  const auto step = [&](const std::string& devices, const std::string& name) {
    const Outcome outcome = succeeded(quickstart({"--set", "network.use=" + (folder / "plain.toml"), "--set",
                                                  "train.batch.size=400", "--set", "run.precision=fp32", "--devices", devices},
                                                 folder / name));
    EXPECT_EQ(events(outcome, "step").size(), 1U);
    return read_safetensors(weights_of(folder / name)).tensors;
  };
  const auto one = step("cpu", "one");
  const auto two = step("cpu*2", "two");
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t t = 0; t < one.size(); ++t) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < one[t].values.size(); ++i) {
      difference += std::pow(one[t].values[i] - two[t].values[i], 2);
      norm += std::pow(one[t].values[i], 2);
    }
    EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(norm)) << one[t].name;
  }
}

TEST(Run, LetsAReplicaHaveNoShare) {
  const Outcome alone = quickstart({"--set", "run.precision=fp32", "--devices", "cpu"});
  for (const char* load : {"[0, 1]", "[1, 0]"}) {
    const Outcome outcome =
        quickstart({"--set", "run.precision=fp32", "--devices", "cpu*2", "--set", std::string("run.load=") + load});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NEAR(events(outcome, "epoch").back().at("loss").get<double>(), events(alone, "epoch").back().at("loss").get<double>(),
                1e-3);
  }
}

TEST(Run, BeginsAtAnyStepWithWhatWouldHaveComeThere) {
  const Outcome whole = quickstart({"--set", "run.epochs=3"});
  const Outcome third = succeeded(quickstart({"--set", "run.epochs=3", "--from", "3"}));
  ASSERT_EQ(events(whole, "epoch").size(), 3U);
  ASSERT_EQ(events(third, "epoch").size(), 1U);
  EXPECT_EQ(events(third, "epoch")[0].at("stream_hash"), events(whole, "epoch")[2].at("stream_hash"));
  EXPECT_EQ(events(third, "step").front().at("step"), 9);
  EXPECT_EQ(events(third, "step").front().at("learning_rate"), events(whole, "step")[8].at("learning_rate"));
  EXPECT_EQ(events(third, "validate").back().at("step"), 12);
  const Outcome middle = succeeded(quickstart({"--set", "run.epochs=3", "--from", "2:3"}));
  EXPECT_EQ(events(middle, "step").size(), 6U);
  EXPECT_EQ(events(middle, "epoch").back().at("stream_hash"), events(whole, "epoch")[2].at("stream_hash"));
  const Outcome late = quickstart({"--from", "1:5"}), later = quickstart({"--from", "2"});
  EXPECT_EQ(late.code, 2);
  EXPECT_NE(late.err.find("the run cannot begin with step 5 of an epoch: [train] has 4"), std::string::npos) << late.err;
  EXPECT_EQ(later.code, 2);
  EXPECT_NE(later.err.find("the run cannot begin with step 1 of epoch 2: it ends after 1 epochs, 4 steps"), std::string::npos)
      << later.err;
}

TEST(Run, WeightsMeasureTheSameAgain) {
  const TemporaryFolder folder;
  const Outcome trained = succeeded(quickstart({}, folder / "runs"));
  const Outcome measured = succeeded(quickstart({"--graph", "validate", "--weights", weights_of(folder / "runs")}));
  const auto before = events(trained, "validate").back();
  const auto after = events(measured, "validate").back();
  EXPECT_EQ(before.at("accuracy"), after.at("accuracy"));
  EXPECT_DOUBLE_EQ(before.at("loss").get<double>(), after.at("loss").get<double>());
}

}  // namespace
}  // namespace millrace::test
