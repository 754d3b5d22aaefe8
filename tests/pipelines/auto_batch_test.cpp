// size = "auto": the largest batch that fits into memory, found before allocating, and reproducible.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "command.h"

namespace millrace::test {
namespace {

std::vector<std::string> quickstart_with(const std::vector<std::string>& settings) {
  std::vector<std::string> words = {tool("pipeline-run"), pipeline("quickstart.toml")};
  for (const std::string& setting : {"data.path=" + shapes(), std::string("run.folder="), std::string("run.epochs=1"),
                                     std::string("run.precision=fp32"), std::string("validate.batch.size=50")}) {
    words.insert(words.end(), {"--set", setting});
  }
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  return words;
}

std::vector<std::string> with_words(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The first number before `what`, in MiB.
double mebibytes(const std::string& report, const std::string& what) {
  std::smatch match;
  if (!std::regex_search(report, match, std::regex(R"(([0-9.]+) (MiB|GiB)  )" + what))) return 0;
  return std::stod(match[1]) * (match[2] == "GiB" ? 1024 : 1);
}

// The limit at which exactly this batch fits, from --check.
std::string memory_for(int size, const std::string& devices) {
  const Outcome check =
      run_command(with_words(quickstart_with({fmt::format("train.batch.size={}", size)}), {"--check", "--devices", devices}));
  EXPECT_EQ(check.code, 0) << check.err;
  return fmt::format("run.memory={:.1f} MiB", mebibytes(check.out, "in all") + 0.5);
}

int chosen(const std::string& text) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(R"(batch size: (\d+))")) ? std::stoi(match[1]) : 0;
}

TEST(AutoBatch, IsTheLargestThatTheMemoryHolds) {
  const std::string memory = memory_for(96, "cpu");
  const std::vector<std::string> words = quickstart_with({"train.batch.size=auto", memory});
  const Outcome check = succeeded(run_command(with_words(words, {"--check", "--devices", "cpu"})));
  EXPECT_EQ(chosen(check.out), 96) << memory << '\n' << check.out;
  EXPECT_NE(check.out.find("of the host's memory; run.memory allows "), std::string::npos) << check.out;
  EXPECT_NE(check.out.find("batches of 96, 4 steps per epoch"), std::string::npos) << check.out;
  EXPECT_NE(check.out.find("batches of 50"), std::string::npos) << "validation's is its own\n" << check.out;
  const Outcome again = run_command(with_words(words, {"--check", "--devices", "cpu"}));
  EXPECT_EQ(chosen(again.out), 96) << again.out;
}

// The search once counted 256 MiB for the program, and --check what happened to be loaded.
TEST(AutoBatch, AddsUpAsCheckDoes) {
  const auto check = [](const std::vector<std::string>& settings) {
    const Outcome outcome = succeeded(run_command(with_words(quickstart_with(settings), {"--check", "--devices", "cpu"})));
    return outcome.out;
  };
  const std::string found = check({"train.batch.size=auto", memory_for(96, "cpu")});
  EXPECT_EQ(mebibytes(found, "in all"), mebibytes(check({"train.batch.size=96"}), "in all")) << found;
  std::smatch refused;
  ASSERT_TRUE(std::regex_search(found, refused, std::regex(R"(\(with (\d+), the run needs ([0-9.]+) MiB of the host's memory)")))
      << found;
  const std::string larger = check({fmt::format("train.batch.size={}", refused[1].str())});
  EXPECT_DOUBLE_EQ(mebibytes(larger, "in all"), std::stod(refused[2])) << found << larger;
}

TEST(AutoBatch, StandsInTheResolvedFileAndIsWhatTheSizeItselfWouldBe) {
  const TemporaryFolder folder;
  const std::string memory = memory_for(96, "cpu");
  std::vector<std::string> weights, rates;
  for (const std::string size : {"auto", "96"}) {
    const Outcome run = succeeded(run_command(
        with_words(quickstart_with({"train.batch.size=" + size, memory, "run.folder=" + (folder / size), "checkpoint.every=never",
                                    "train.optimizer.scale_with_batch={reference=48}", "train.optimizer.learning_rate=0.01"}),
                   {"--json", "--devices", "cpu"})));
    EXPECT_EQ(chosen(run.err), size == "auto" ? 96 : 0) << run.err;
    EXPECT_NE(read_file(find_file(folder / size, "pipeline.toml")).find("size = 96"), std::string::npos);
    weights.push_back(read_file(find_file(folder / size, "weights.safetensors")));
    ASSERT_FALSE(events(run, "step").empty());
    EXPECT_DOUBLE_EQ(events(run, "step").front().at("learning_rate").get<double>(), 0.02);
  }
  EXPECT_FALSE(weights[0].empty());
  EXPECT_TRUE(weights[0] == weights[1]) << "the weights differ";
}

TEST(AutoBatch, IsTheCheckpointsInARunThatGoesOn) {
  const TemporaryFolder folder;
  const std::vector<std::string> settings = {"train.batch.size=auto", "run.folder=" + (folder / "runs"),
                                             "checkpoint.every=1 step"};
  std::vector<std::string> first = settings, second = settings;
  first.insert(first.end(), {"stop.max_steps=2", memory_for(96, "cpu")});
  second.push_back(memory_for(192, "cpu"));
  const Outcome begun = succeeded(run_command(with_words(quickstart_with(first), {"--devices", "cpu"})));
  const int size = chosen(begun.err);
  EXPECT_GT(size, 64) << begun.err;
  EXPECT_LE(size, 96) << begun.err;
  const Outcome resumed =
      run_command(with_words(quickstart_with(second), {"--devices", "cpu", "--resume", "--allow-change", "stop"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find(fmt::format("batch size: {} (the checkpoint's)", size)), std::string::npos) << resumed.err;
  second = settings;
  second.push_back("run.memory=80 MiB");
  const Outcome lacking =
      run_command(with_words(quickstart_with(second), {"--devices", "cpu", "--resume", "--allow-change", "stop"}));
  EXPECT_EQ(lacking.code, 2) << lacking.err;
  EXPECT_NE(lacking.err.find(fmt::format("the run began with {}, which no longer fits", size)), std::string::npos) << lacking.err;
}

TEST(AutoBatch, IsTheSameForAllProcesses) {
  const TemporaryFolder folder;
  const Outcome run = succeeded(run_command(with_words(quickstart_with({"train.batch.size=auto", "train.batch.last=keep",
                                                                        "run.memory=800 MiB", "run.folder=" + (folder / "runs")}),
                                                       {"--devices", "cpu*2", "--processes", "2"})));
  const int size = chosen(run.err);
  EXPECT_GE(size, 16) << run.err;
  EXPECT_LE(size, 400) << run.err;
  EXPECT_EQ(size % 16, 0) << "eight for each replica";
  EXPECT_NE(read_file(find_file(folder / "runs", "pipeline.toml")).find(fmt::format("size = {}", size)), std::string::npos);
}

TEST(WrittenBatch, OfAGraphThatDoesNotTrainIsTheDataSetAtMost) {
  std::vector<std::string> reports;
  for (const std::string size : {"130", "100000"}) {
    const Outcome check = succeeded(run_command(with_words(
        quickstart_with({"validate.batch.size=" + size, "train.batch.last=keep", "train.batch.size=500"}), {"--check"})));
    EXPECT_NE(check.out.find("batches of 130, 1 step per epoch"), std::string::npos) << check.out;
    EXPECT_NE(check.out.find("batches of 500, 1 step per epoch"), std::string::npos) << check.out;
    reports.push_back(check.out);
  }
  EXPECT_EQ(reports[0], reports[1]);
  const Outcome dropped =
      run_command(with_words(quickstart_with({"validate.batch.size=1000", "validate.batch.last=drop"}), {"--check"}));
  EXPECT_NE(dropped.err.find("130 samples are fewer than one batch of 1000"), std::string::npos) << dropped.err;
}

// An address space of 2 GiB, and a plan of half as much again, since plans of twice the memory are refused.
TEST(WrittenBatch, ThatTakesAllMemoryEndsWithWhatWasPlanned) {
  if (kSanitizer) GTEST_SKIP() << "a sanitizer reserves more address space than that";
  const TemporaryFolder folder;
  std::vector<std::string> command = {"/usr/bin/prlimit", "--as=2147483648"};
  std::ranges::copy(with_words(quickstart_with({"train.decode_image.size=[300, 300]", "train.batch.size=100",
                                                "network.height=300", "network.width=300",
                                                "validate.decode_image.size=[300, 300]", "run.folder=" + (folder / "runs")}),
                               {"--devices", "cpu"}),
                    std::back_inserter(command));
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("out of memory: "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" of the host's memory are planned, the program holds "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(", and there are 2.00 GiB;"), std::string::npos) << outcome.err;
}

TEST(AutoBatch, IsFoundForDataStagesAlone) {
  const TemporaryFolder folder;
  std::ofstream(folder / "data.toml")
      << "[run]\nname = \"data\"\nfolder = \"\"\nmemory = \"640 MiB\"\n[train]\nflow = [\"read\", \"decode_image\", "
      << "\"batch\"]\n[train.read]\nstage = \"read_folder\"\npath = \"" << shapes()
      << "/train\"\n[train.decode_image]\nsize = [512, 512]\n[train.batch]\nsize = \"auto\"\n";
  const Outcome check = succeeded(run_command({tool("pipeline-run"), folder / "data.toml", "--check"}));
  EXPECT_GE(chosen(check.out), 64) << check.out;
  EXPECT_LT(chosen(check.out), 400) << "three batches of 400 are 900 MiB\n" << check.out;
}

TEST(AutoBatch, CountsTheMemoryOfAGpu) {
  const std::filesystem::path folder = std::filesystem::path(MILLRACE_BINARY_DIR) / "tests/simulated";
  if (!std::filesystem::exists(folder / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
  setenv("MILLRACE_PLUGIN_PATH", folder.c_str(), 1);
  const Outcome check = run_command(
      with_words(quickstart_with({"train.batch.size=auto", "network.use=resnet50", "network.height=224", "network.width=224",
                                  "train.decode_image.size=[224, 224]", "validate.decode_image.size=[224, 224]"}),
                 {"--check", "--devices", "simulated:0"}));
  unsetenv("MILLRACE_PLUGIN_PATH");
  ASSERT_EQ(check.code, 0) << check.err;
  EXPECT_GE(chosen(check.out), 8) << check.out;
  EXPECT_LT(chosen(check.out), 400) << check.out;
  EXPECT_NE(check.out.find("of simulated:0's memory; the device allows "), std::string::npos) << check.out;
  EXPECT_LE(mebibytes(check.out, "in all, of simulated:0's memory"), 7 * 1024) << check.out;
}

}  // namespace
}  // namespace millrace::test
