// Several processes train together with exactly the results of one, stop together, and notice when one of them is gone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "command.h"
#include "running_program.h"
#include "small_run.h"
#include "testkit/messages.h"

namespace millrace::test::processes_test {
namespace {

std::string weights_in(const std::string& folder) { return read_file(find_file(folder, "weights.safetensors")); }

struct Setting {
  const char *name, *norm, *dropout, *devices;
  std::vector<std::string> set;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class Processes : public testing::TestWithParam<Setting> {
 protected:
  std::string write(const std::string& data, const char* norm, const char* dropout) {
    std::ofstream(folder_ / "network.toml") << fmt::format(kSmallNetwork, norm, dropout);
    std::ofstream(folder_ / "pipeline.toml") << fmt::format(kSmallPipeline, data);
    return folder_ / "pipeline.toml";
  }
  std::vector<std::string> command(const std::string& runs, int processes, const std::vector<std::string>& set) const {
    return with({tool("pipeline-run"), folder_ / "pipeline.toml", "--json", "--set", "run.folder=" + (folder_ / runs),
                 "--processes", std::to_string(processes)},
                set);
  }
  TemporaryFolder folder_;
};

TEST_P(Processes, TrainToTheSameBitsAsOne) {
  const Setting& setting = GetParam();
  write(shapes(), setting.norm, setting.dropout);
  std::vector<Outcome> outcomes;
  for (const int processes : {1, 2}) {
    std::vector<std::string> words = command(std::to_string(processes), processes, setting.set);
    words.insert(words.end(), {"--devices", setting.devices});
    outcomes.push_back(run_command(words, {}));
    if (lacks_bf16(outcomes.back())) GTEST_SKIP() << outcomes.back().err;
    ASSERT_EQ(outcomes.back().code, 0) << outcomes.back().err;
  }
  const std::string one = weights_in(folder_ / "1"), two = weights_in(folder_ / "2");
  ASSERT_FALSE(one.empty());
  EXPECT_TRUE(one == two) << "the weights differ";
  for (const char* event : {"step", "epoch", "validate"}) {
    const auto first = events(outcomes[0], event), second = events(outcomes[1], event);
    ASSERT_EQ(first.size(), second.size()) << event;
    ASSERT_FALSE(first.empty()) << event;
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_NEAR(first[i].at("loss"), second[i].at("loss"), 1e-9) << event << ' ' << i;  // sums in another order
      if (first[i].contains("stream_hash")) {
        EXPECT_EQ(first[i].at("stream_hash"), second[i].at("stream_hash")) << event;
      }
      if (first[i].contains("samples")) {
        EXPECT_EQ(first[i].at("samples"), second[i].at("samples")) << event;
      }
    }
  }
}

constexpr const char* kNorm = "{ op = \"batch_norm\" },";
constexpr const char* kDropout = "{ op = \"dropout\", probability = 0.3 },";
constexpr const char* kWholes =
    "{ op = \"dropout\", probability = 0.3, drops = \"channels\" }, { op = \"stochastic_depth\", probability = 0.2 },";
constexpr const char* kSync = "train.forward_backward.sync_batch_norm=true";

INSTANTIATE_TEST_SUITE_P(
    All, Processes,
    testing::Values(Setting{"plain", "", "", "cpu*2", {}}, Setting{"of_two_replicas", "", "", "cpu*4", {}},
                    Setting{"one_and_two_replicas", "", kDropout, "cpu*3", {}}, Setting{"dropout", "", kDropout, "cpu*2", {}},
                    Setting{"dropped_channels_and_samples", "", kWholes, "cpu*3", {}},
                    Setting{"own_statistics", kNorm, "", "cpu*2", {}}, Setting{"shared_statistics", kNorm, "", "cpu*2", {kSync}},
                    Setting{"shared_by_four", kNorm, kDropout, "cpu*4", {kSync}},
                    Setting{"unequal_shares", kNorm, kDropout, "cpu*2", {kSync, "run.load=[3, 1]"}},
                    Setting{"bfloat16", kNorm, "", "cpu*2", {kSync, "run.precision=bf16"}},
                    // 396 samples leave 1 for the last batch of 5: nothing for replica 1.
                    Setting{"a_rank_without_samples",
                            kNorm,
                            kDropout,
                            "cpu*2",
                            {kSync, "train.batch.size=5", "train.batch.last=keep", "train.read.limit=396", "run.epochs=1"}},
                    Setting{"micro_batches", "", kDropout, "cpu*2", {"train.forward_backward.micro_batches=3"}}),
    [](const auto& test) { return std::string(test.param.name); });

// The shapes, with a few broken images. Returns their number.
std::size_t copy_with_broken_images(const std::string& data) {
  std::filesystem::copy(shapes(), data, std::filesystem::copy_options::recursive);
  std::size_t broken = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data + "/train")) {
    if (entry.is_regular_file() && broken < 9 && std::hash<std::string>()(entry.path().filename().string()) % 4 == 0) {
      std::ofstream(entry.path()) << "no image";
      ++broken;
    }
  }
  EXPECT_GT(broken, 3U);
  return broken;
}

TEST_F(Processes, LeaveOutTheSameBadSamplesAndNameThemAll) {
  const std::string data = folder_ / "data";
  const std::size_t broken = copy_with_broken_images(data);
  write(data, kNorm, "");
  std::vector<std::string> weights;
  for (const int processes : {1, 2}) {
    std::vector<std::string> words =
        command(std::to_string(processes), processes, {kSync, "train.batch.bad_samples=skip", "run.epochs=1"});
    words.insert(words.end(), {"--devices", "cpu*2"});
    const Outcome outcome = succeeded(run_command(words, {}));
    weights.push_back(weights_in(folder_ / std::to_string(processes)));
    const std::string ledger = read_file(find_file(folder_ / std::to_string(processes), "quarantine.jsonl"));
    EXPECT_EQ(static_cast<std::size_t>(std::count(ledger.begin(), ledger.end(), '\n')), broken) << processes << " processes:\n"
                                                                                                << ledger << outcome.err;
    EXPECT_EQ(events(outcome, "end").at(0).at("bad_samples"), broken);
  }
  EXPECT_TRUE(weights[0] == weights[1]);
}

// Each of two processes meets about half of the bad samples.
TEST_F(Processes, ShareOneBudgetOfBadSamples) {
  const std::string data = folder_ / "data";
  const std::size_t broken = copy_with_broken_images(data);
  write(data, "", "");
  for (const std::size_t budget : {broken - 1, broken}) {
    std::vector<std::string> words =
        command(fmt::format("{}", budget), 2,
                {"train.batch.bad_samples=skip", fmt::format("train.batch.bad_sample_budget={}", budget), "run.epochs=2"});
    words.insert(words.end(), {"--devices", "cpu*2"});
    const Outcome outcome = run_command(words, {});
    EXPECT_EQ(outcome.code, budget < broken ? 3 : 0) << outcome.err;
    const std::string said = fmt::format("are more than `bad_sample_budget` allows ({})", budget);
    EXPECT_EQ(outcome.err.find(said) != std::string::npos, budget < broken) << outcome.err;
  }
}

TEST_F(Processes, OneThatWasStoppedEndsWithTheFirst) {
  write(shapes(), kNorm, "");
  std::vector<std::string> words = command("stopped", 2, {kSync, "run.epochs=100000"});
  words.insert(words.end(), {"--devices", "cpu*2"});
  RunningProgram program(words);
  constexpr double kLimit = 60;
  ASSERT_TRUE(program.reports("train: epoch 1", kLimit)) << program.err();
  const std::vector<pid_t> children = program.children();
  ASSERT_EQ(children.size(), 1U);
  ASSERT_EQ(::kill(children[0], SIGSTOP), 0);
  program.send(SIGKILL);
  EXPECT_TRUE(program.ends(kLimit));
  EXPECT_TRUE(program.is_alone(kLimit));
}

TEST_F(Processes, RefuseWhatTheyCannotDo) {
  write(shapes(), "", "");
  std::vector<std::string> words = command("few", 2, {});
  words.insert(words.end(), {"--devices", "cpu"});
  for (const bool check : {false, true}) {
    if (check) words.emplace_back("--check");
    const Outcome few = run_command(words, {});
    EXPECT_EQ(few.code, 2) << few.err;
    const std::string said =
        "devices = \"cpu\" makes 1 replica, but there are 2 processes: each needs one, as \"cpu*2\" makes them";
    const std::size_t at = few.err.find(said);
    EXPECT_NE(at, std::string::npos) << few.err;
    EXPECT_EQ(few.err.find(said, at + 1), std::string::npos) << "each process says it:\n" << few.err;
  }
  words = command("sync", 1, {kSync, "train.forward_backward.micro_batches=2"});
  const Outcome pieces = run_command(words, {});
  EXPECT_EQ(pieces.code, 2) << pieces.err;
  EXPECT_NE(pieces.err.find("micro_batches = 2"), std::string::npos) << pieces.err;
  words = command("mix", 2,
                  {"train.mix_images.mixup={ chance = 1 }",
                   R"(train.flow=["read", "decode_image", "augment", "batch", "mix_images", "forward_backward",
                                            "allreduce", "optimizer", "metrics"])"});
  words.insert(words.end(), {"--devices", "cpu*2"});
  EXPECT_MESSAGE(refused(run_command(words, {})));
}

}  // namespace
}  // namespace millrace::test::processes_test
