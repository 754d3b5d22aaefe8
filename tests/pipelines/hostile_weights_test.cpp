// Weights from anywhere, given to whole programs: nothing outside --out is written, and no program crashes, hangs or takes all
// memory.
#include "hostile_weights.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "command.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// All files below a folder with what they hold.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    all[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  }
  return all;
}

// One of each kind takes half a minute.
std::size_t files_to_try() {
  const char* const asked = std::getenv("MILLRACE_HOSTILE_WEIGHTS");
  return asked == nullptr ? 0 : static_cast<std::size_t>(std::strtoull(asked, nullptr, 10));
}

class HostileWeights : public testing::Test {
 protected:
  HostileWeights() {
    const Outcome trained =
        run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--set", "data.path=" + shapes(), "--set",
                     "run.epochs=0.25", "--set", "run.folder=" + (folder_ / "runs"), "--devices", "cpu", "--quiet"});
    EXPECT_EQ(trained.code, 0) << trained.err;
    good_ = read_file(find_file(folder_ / "runs", "weights.safetensors"));
    fs::create_directories(folder_ / "user");
    std::ofstream(folder_ / "user/profile") << "keep\n";
  }

  // In a folder that holds the user's files and the weights.
  Outcome run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"/usr/bin/env", "--chdir=" + (folder_ / "user"), "HOME=" + (folder_ / "user"),
                                    "MILLRACE_CACHE=" + (folder_ / "cache")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Interruption limit;
    limit.limit = 60;
    return run_command(all, limit);
  }
  static void expect_ended(const Outcome& outcome, const std::string& what) {
    EXPECT_FALSE(outcome.killed) << what << " hangs";
    EXPECT_TRUE(outcome.code >= 0 && outcome.code <= 4) << what << ": exit code " << outcome.code << "\n" << outcome.err;
    EXPECT_TRUE(outcome.code == 0 || !outcome.err.empty()) << what << " says nothing";
    EXPECT_LT(outcome.err.size(), std::size_t{64} << 10U) << what << " says too much";
    EXPECT_TRUE(kSanitizer || outcome.peak_kib < 1 << 20) << what << " takes " << outcome.peak_kib << " KiB";
  }

  void try_file(const HostileFile& file) const {
    ASSERT_FALSE(file.bytes.empty()) << file.kind << ": " << file.name;
    const std::string path = folder_ / "user/" + file.name, what = file.kind + ", " + file.name;
    std::ofstream(path, std::ios::binary) << file.bytes;
    const auto before = contents(folder_ / "user");
    expect_ended(run({tool("pipeline-run"), "--predict", shapes() + "/test/circle", "--weights", path, "--out", folder_ / "out",
                      "--devices", "cpu", "--quiet"}),
                 what + ": --predict");
    expect_ended(run({tool("pipeline-inspect"), path}), what + ": pipeline-inspect");
    EXPECT_TRUE(contents(folder_ / "user") == before) << what << " reached files of the user";
    fs::remove_all(folder_ / "out");
    fs::remove(path);
  }

  TemporaryFolder folder_;
  std::string good_;
};

TEST_F(HostileWeights, ReachNothingOutsideTheFolderOfPredictions) {
  const std::size_t asked = files_to_try(), kinds = kinds_of_hostile_weights();
  const auto files = hostile_weights(good_, folder_ / "user/profile", std::max(asked, kinds));
  const std::size_t step = asked > 0 ? 1 : 4;  // the short form: some of each sort
  for (std::size_t i = 0; i < files.size(); i += step) try_file(files[i]);
}

}  // namespace
}  // namespace millrace::test
