// A run ends, or reports what it waits for, with any stage missing from a flow and signals at any time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "command.h"
#include "running_program.h"

namespace millrace::test::ending_test {
namespace {

namespace fs = std::filesystem;

// A shipped pipeline, and settings that make it small: 120 images of 32 x 32, two epochs of three or five steps.
struct Shipped {
  std::string file;
  std::vector<std::string> set;
};
const std::vector<Shipped>& shipped() {
  const std::vector<std::string> few = {"data.path=" + shapes(), "train.batch.size=40", "train.read.limit=120",
                                        "validate.read.limit=60"};
  std::vector<std::string> with_final = few;
  with_final.emplace_back("final.read.limit=60");
  static const std::vector<Shipped> all = {
      {"quickstart.toml", few},
      {"cifar10.toml", few},
      {"cifar10_airbench.toml", with_final},
      {"resnet50.toml",
       {"data.path=" + shapes(), "network.classes=10", "image.side=32", "image.short=36", "train.batch.size=20",
        "train.read.limit=100", "validate.batch.size=13", "validate.read.limit=26"}}};
  return all;
}

std::vector<std::string> flow_of(const std::string& text, const std::string& graph) {
  std::smatch found;
  std::vector<std::string> stages;
  if (!std::regex_search(text, found, std::regex("\\[" + graph + "\\][^\\[]*flow\\s*=\\s*\\[([^\\]]*)\\]"))) return stages;
  const std::string list = found[1];
  const std::regex word("\"([a-z_0-9]+)\"");
  for (auto it = std::sregex_iterator(list.begin(), list.end(), word); it != std::sregex_iterator(); ++it)
    stages.push_back((*it)[1]);
  return stages;
}

// The file without a stage of the graph and its tables.
std::string without(std::string text, const std::string& graph, const std::string& stage) {
  const std::size_t begin = text.find("flow", text.find("\n[" + graph + "]\n")), end = text.find(']', begin);
  const std::string list = text.substr(begin, end - begin);
  text.replace(begin, end - begin, std::regex_replace(list, std::regex(",\\s*\"" + stage + "\"|\"" + stage + "\"\\s*,"), ""));
  const std::regex table("\n\\[" + graph + "\\." + stage + "(\\.[a-z_.]+)?\\][^\n]*(\n(?!\\[)[^\n]*)*");
  return std::regex_replace(text, table, "");
}

// Next to a copy of the networks, like the shipped file.
std::string write_beside_networks(const TemporaryFolder& folder, const std::string& text) {
  if (!fs::exists(folder.path() / "networks")) fs::copy(pipeline("networks"), folder.path() / "networks");
  std::ofstream(folder / "pipeline.toml") << text;
  return folder / "pipeline.toml";
}

std::vector<std::string> command_of(const std::string& file, const std::vector<std::string>& set) {
  return with({tool("pipeline-run"), file, "--set", "run.folder=", "--set", "run.epochs=2"}, set);
}

constexpr double kLimit = 240;  // seconds, for busy machines

// 0 to 4: see run_tool's help; 130 and 143: by a signal.
void expect_an_end(const Outcome& outcome, const Interruption& interruption, const std::string& what) {
  ASSERT_FALSE(outcome.killed) << what << " had not ended after " << kLimit << " s:\n" << outcome.err;
  const std::set<int> codes = {0, 1, 2, 3, 4, 128 + SIGINT, 128 + SIGTERM};
  EXPECT_TRUE(codes.contains(outcome.code)) << what << " ended with " << outcome.code << ":\n" << outcome.err;
  if (interruption.after <= 0 || outcome.awake_seconds <= interruption.after + 11) return;
  EXPECT_NE(outcome.err.find("still waiting for"), std::string::npos) << what << ":\n" << outcome.err;
}

// 500 runs: MILLRACE_ENDINGS=500. A failure prints how to repeat it.
TEST(Ending, EveryFlowEndsWhateverIsLeftOutAndWheneverASignalComes) {
  const char* const wanted = std::getenv("MILLRACE_ENDINGS");
  const int runs = wanted == nullptr ? 12 : std::atoi(wanted);
  std::mt19937 random(24);
  const auto draw = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
  const TemporaryFolder folder;
  for (int run = 0; run < runs; ++run) {
    const Shipped& chosen = shipped()[draw(shipped().size())];
    std::string text = read_file(pipeline(chosen.file)), what = chosen.file;
    std::vector<std::string> set = chosen.set;
    if (draw(8) > 0) {
      const std::string graph = draw(4) > 0 ? "train" : "validate";
      std::vector<std::string> flow = flow_of(text, graph);
      const bool is_inherited = flow.empty();
      if (is_inherited) flow = flow_of(read_file(pipeline("recipes/classify.toml")), graph);
      ASSERT_FALSE(flow.empty()) << chosen.file << " has no flow in [" << graph << "]";
      const std::string stage = flow[draw(flow.size())];
      if (is_inherited) {
        std::erase(flow, stage);
        text += fmt::format("\n[{}]\nflow = [\"{}\"]\n", graph, fmt::join(flow, "\", \""));
      } else {
        text = without(text, graph, stage);
      }
      what += " without " + graph + "." + stage;
      std::erase_if(set, [&](const std::string& key) { return key.starts_with(graph + "." + stage + "."); });
    }
    std::vector<std::string> words = command_of(write_beside_networks(folder, text), set);
    if (draw(3) == 0) words.insert(words.end(), {"--devices", "cpu*2"});
    Interruption interruption;
    interruption.limit = kLimit;
    if (draw(2) == 0) {
      interruption.after = 0.001 * static_cast<double>(1 + draw(2000));
      interruption.signal = draw(2) == 0 ? SIGINT : SIGTERM;
      what += fmt::format(", signal {} after {:.3f} s", interruption.signal, interruption.after);
    }
    expect_an_end(run_command(words, interruption), interruption, fmt::format("run {}: {}", run, what));
    if (HasFatalFailure()) return;
  }
}

TEST(Ending, AFlowWithoutMetricsTrainsAndClaimsNoLoss) {
  const TemporaryFolder folder;
  const std::string text = without(read_file(pipeline("quickstart.toml")), "train", "metrics");
  std::vector<std::string> words = command_of(write_beside_networks(folder, text), shipped()[0].set);
  words.push_back("--json");
  Interruption limit;
  limit.limit = kLimit;
  const Outcome outcome = succeeded(run_command(words, limit));
  const auto epochs = events(outcome, "epoch");
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_FALSE(epochs.back().contains("loss")) << epochs.back();
  EXPECT_GT(epochs.back().at("images_per_second"), 0);
  const auto steps = events(outcome, "step");
  ASSERT_FALSE(steps.empty());
  EXPECT_FALSE(steps.front().contains("loss"));
  EXPECT_TRUE(steps.front().contains("learning_rate"));
  EXPECT_EQ(events(outcome, "validate").size(), 2U);
}

// quickstart.toml with the stage that blocks between augment and batch, running until it blocks.
class StuckProgram {
 public:
  explicit StuckProgram(const std::string& where)
      : program_(command(where), {"MILLRACE_PLUGIN_PATH=" MILLRACE_BINARY_DIR "/tests/stuck"}) {
    EXPECT_TRUE(program_.reports("stuck\n", kLimit)) << where << ": " << program_.err();
  }
  RunningProgram* operator->() { return &program_; }

 private:
  std::vector<std::string> command(const std::string& where) const {
    std::string text = read_file(pipeline("quickstart.toml"));
    const std::string before = "\"augment\", ";
    text.insert(text.find(before) + before.size(), "\"stuck\", ");
    text += "\n[train.stuck]\nwhere = \"" + where + "\"\n";
    return command_of(write_beside_networks(folder_, text), shipped()[0].set);
  }
  const TemporaryFolder folder_;
  RunningProgram program_;
};

constexpr double kAtOnce = 6;  // seconds

TEST(Ending, AStageThatBlocksIsNamedAndASecondSignalEndsTheProgram) {
  StuckProgram stuck("process");
  stuck->send(SIGTERM);
  ASSERT_TRUE(stuck->reports("still waiting for the steps under way: ", kLimit)) << stuck->err();
  stuck->send(SIGTERM);
  ASSERT_TRUE(stuck->ends(kAtOnce)) << stuck->err();
  EXPECT_EQ(stuck->code(), 143) << stuck->err();
  EXPECT_NE(stuck->err().find("[train.stuck] works on"), std::string::npos) << stuck->err();
  EXPECT_NE(stuck->err().find("\npipeline-run: stopped at once by a second signal; nothing more was saved\n"), std::string::npos)
      << stuck->err();
}

TEST(Ending, AStageThatBlocksIsNamedWithItsSampleWhenSomebodyAsks) {
  StuckProgram stuck("process");
  stuck->send(SIGQUIT);
  ASSERT_TRUE(stuck->reports("now: ", kLimit)) << stuck->err();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // a sample is named once a thread has held it for a second
  stuck->send(SIGQUIT);
  ASSERT_TRUE(stuck->reports(".jpg' of step 1 for ", kLimit)) << stuck->err();
  EXPECT_NE(stuck->err().find("now: [train.stuck] works on sample '"), std::string::npos) << stuck->err();
  stuck->send(SIGKILL);
  ASSERT_TRUE(stuck->ends(kAtOnce)) << stuck->err();
}

TEST(Ending, BeforeTheFirstStepOneSignalIsEnough) {
  for (const auto& [where, doing] : std::vector<std::pair<std::string, std::string>>{{"create", "listing the samples of [train]"},
                                                                                     {"open", "opening the stages of [train]"}}) {
    StuckProgram stuck(where);
    stuck->send(SIGINT);
    ASSERT_TRUE(stuck->ends(kAtOnce)) << where << ": " << stuck->err();
    EXPECT_EQ(stuck->code(), 130) << where << ": " << stuck->err();
    EXPECT_NE(stuck->err().find("pipeline-run: stopped while " + doing + "; there was nothing to save"), std::string::npos)
        << where << ": " << stuck->err();
  }
}

}  // namespace
}  // namespace millrace::test::ending_test
