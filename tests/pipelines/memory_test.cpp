// Memory is known before the run.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "command.h"

namespace millrace::test {
namespace {

// The number before `what`.
double mib_of(const std::string& report, const std::string& what) {
  std::smatch match;
  if (!std::regex_search(report, match, std::regex(R"(([0-9.]+) (MiB|GiB)  )" + what))) return 0;
  return std::stod(match[1]) * (match[2] == "GiB" ? 1024 : 1);
}
double bound_in_mib(const std::string& report) { return mib_of(report, "in all"); }

// A batch large enough that the network's memory dominates the program's.
std::vector<std::string> command(const std::vector<std::string>& more) {
  return with({tool("pipeline-run"), pipeline("cifar10.toml")},
              {"data.path=" + shapes(), "run.folder=", "train.batch.size=400", "train.read.limit=400", "run.epochs=3",
               "validate.batch.size=100"},
              more);
}

TEST(Memory, StaysWithinTheBoundThatCheckPrintedAndTheBoundIsTight) {
  if (kSanitizer) GTEST_SKIP() << "a sanitizer takes memory that nothing plans";
  const TemporaryFolder folder;
  const std::string runs = "run.folder=" + (folder / "runs");  // image sheets are drawn for it, and counted without it too
  const Outcome check = succeeded(run_command(command({"--check", "--set", runs})));
  const double bound = bound_in_mib(check.out);
  ASSERT_GT(bound, 0) << check.out;
  const Outcome run = succeeded(run_command(command({"--json", "--set", runs})));
  const double peak = static_cast<double>(run.peak_kib) / 1024;
  EXPECT_LE(peak, bound) << check.out;
  EXPECT_LE(bound, 1.5 * peak) << check.out;
  EXPECT_LE(bound - mib_of(check.out, "program"), 1.2 * peak) << "the program's own is a round figure\n" << check.out;

  // Images of the second epoch use memory that the third reuses: the constant part is what training holds.
  const auto epochs = events(run_command(command({"--json"})), "epoch");
  ASSERT_EQ(epochs.size(), 3U);
  EXPECT_LE(epochs[2].at("resident_bytes").get<double>(), 1.01 * epochs[1].at("resident_bytes").get<double>());
}

// Eight layers of 2048 units and hardly any activations: nearly all memory is weights.
TEST(Memory, StaysWithinTheBoundWhileWeightsAreSaved) {
  if (kSanitizer) GTEST_SKIP() << "a sanitizer takes memory that nothing plans";
  const TemporaryFolder folder;
  std::ofstream network(folder / "wide.toml");
  network << "input = { channels = 3, height = 32, width = 32 }\nlayers = [\n";
  for (int layer = 0; layer < 8; ++layer) network << "  { op = \"linear\", out = 2048 }, { op = \"relu\" },\n";
  network << "  { op = \"linear\", out = \"${classes}\" },\n]\n";
  network.close();
  for (const std::string more : {"run.best=", "run.best=validate.loss", "checkpoint.every=1 step"}) {
    const std::vector<std::string> settings = {"--set", "network.use=" + (folder / "wide.toml"),
                                               "--set", "run.folder=" + (folder / "runs"),
                                               "--set", "run.precision=fp32",
                                               "--set", "train.batch.size=20",
                                               "--set", "train.read.limit=40",
                                               "--set", "run.epochs=1",
                                               "--set", more};
    std::vector<std::string> checks = settings;
    checks.emplace_back("--check");
    const Outcome check = succeeded(run_command(command(checks)));
    const Outcome run = succeeded(run_command(command(settings)));
    EXPECT_LE(static_cast<double>(run.peak_kib) / 1024, bound_in_mib(check.out)) << more << '\n' << check.out;
    EXPECT_NE(check.out.find("24.0 MiB  weights               the largest tensor"), std::string::npos) << check.out;
  }
}

TEST(Memory, CountsWhatWaitsForAFullDisk) {
  const TemporaryFolder folder;
  const Outcome check =
      run_command(command({"--check", "--set", "run.folder=" + (folder / "runs"), "--set", "run.best=validate.loss", "--set",
                           "checkpoint.every=1 epoch", "--set", "checkpoint.best=validate.loss"}));
  ASSERT_EQ(check.code, 0) << check.err;
  EXPECT_NE(check.out.find("best weights, kept if the disk is full"), std::string::npos) << check.out;
  EXPECT_NE(check.out.find("best checkpoint, kept if the disk is full"), std::string::npos) << check.out;
}

TEST(Memory, WarnsOfALimitAboveWhatThereIs) {
  for (const std::string size : {"100", "auto"}) {
    const Outcome outcome = succeeded(run_command(
        command({"--check", "--devices", "cpu", "--set", "train.batch.size=" + size, "--set", "run.memory=4096 TiB"})));
    EXPECT_NE(outcome.err.find("run.memory = \"4096 TiB\" is more than the "), std::string::npos) << outcome.err;
  }
  const Outcome outcome = run_command(command({"--check", "--set", "run.memory=1 MiB"}));
  EXPECT_EQ(outcome.err.find("is more than the "), std::string::npos) << outcome.err;
}

// --check prints a size that no machine has, and allocates none of it.
TEST(Memory, IsToldForARunThatIsTooLarge) {
  const Outcome check = run_command(command({"--check", "--devices", "cpu", "--set", "train.decode_image.size=[30000,30000]"}));
  EXPECT_EQ(check.code, 2) << check.err;
  EXPECT_NE(check.out.find("in all"), std::string::npos) << check.out;
  EXPECT_NE(check.err.find("of the host's memory; the machine allows "), std::string::npos) << check.err;
  EXPECT_LT(check.peak_kib, 1 << 20);
}

// Nor do the few images that are checked, which a second graph makes as large.
TEST(Memory, IsPlannedBeforeAnImageIsDecoded) {
  const Outcome check = run_command(command(
      {"--check", "--devices", "cpu", "--set", "train.decode_image.size=[30000,30000]", "--set", "train.decode_image.fit=exact",
       "--set", "validate.decode_image.size=[30000,30000]", "--set", "validate.decode_image.fit=exact"}));
  EXPECT_EQ(check.code, 2) << check.err;
  EXPECT_LT(check.peak_kib, 1 << 20);
}

TEST(Memory, OfPipelineDataIsKnownBeforeAnImageIsDecoded) {
  const Outcome statistics = run_command({tool("pipeline-data"), "statistics", pipeline("quickstart.toml"), "--threads", "64",
                                          "--set", "data.path=" + shapes(), "--set", "train.decode_image.size=[60000,60000]",
                                          "--set", "train.decode_image.fit=exact"});
  EXPECT_EQ(statistics.code, 2) << statistics.err;
  EXPECT_NE(statistics.err.find("on 64 threads, and there are "), std::string::npos) << statistics.err;
  EXPECT_LT(statistics.peak_kib, 1 << 20);
}

// Images that are decoded at their files' full size are named, but not counted.
TEST(Memory, SaysThatSizesOfFilesAreNotKnown) {
  const TemporaryFolder folder;
  const auto report = [&](const std::string& size) {
    std::ofstream(folder / "t.toml") << "[run]\nname = \"t\"\nfolder = \"\"\n[train]\nflow = [\"read_folder\", \"decode_image\", "
                                     << "\"resize\", \"batch\"]\n[train.read_folder]\npath = \"" << shapes()
                                     << "\"\n[train.decode_image]\n"
                                     << size << "\n[train.resize]\nsize = [24, 24]\n[train.batch]\nsize = 10\n";
    const Outcome check = succeeded(run_command({tool("pipeline-run"), folder / "t.toml", "--check"}));
    return check.out;
  };
  EXPECT_NE(report("").find("and  train.decode_image    images at the size of their files"), std::string::npos);
  EXPECT_EQ(report("size = [32, 32]").find("size of their files"), std::string::npos);
}

}  // namespace
}  // namespace millrace::test
