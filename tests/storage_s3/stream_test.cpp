// The stream of samples is the same from all origins: folders, tar shards, either of them on S3, a cache.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "pipelines/command.h"
#include "server.h"

namespace millrace::s3::test {
namespace {

namespace fs = std::filesystem;
using millrace::test::events;
using millrace::test::Outcome;
using millrace::test::pipeline;
using millrace::test::run_command;
using millrace::test::shapes;
using millrace::test::tool;

class Stream : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(tool("pipeline-run"))) GTEST_SKIP() << "pipeline-run is not built";
  }

  // The stream hash of each of two epochs of the quick start with this [train.read].
  std::vector<std::string> hashes(const std::string& read, const std::string& flow = "\"read\", \"decode_image\"") {
    const std::string file = (folder_.path() / "stream.toml").string();
    std::ofstream(file)
        << "extends = \"" << pipeline("quickstart.toml") << "\"\n[train]\nflow = [" << flow
        << ", \"augment\", \"batch\", \"forward_backward\", \"allreduce\", \"optimizer\", \"metrics\"]\n[train.read]\n"
        << read << "\nshuffle = \"every-epoch\"\n";
    const Outcome outcome = succeeded(run_command({tool("pipeline-run"), file, "--json", "--set", "data.path=" + shapes(),
                                                   "--set", "run.folder=", "--set", "run.epochs=2"}));
    std::vector<std::string> result;
    for (const auto& epoch : events(outcome, "epoch")) result.push_back(epoch.at("stream_hash"));
    EXPECT_EQ(result.size(), 2U);
    return result;
  }

  static std::string folder_at(const std::string& root) { return "stage = \"read_folder\"\npath = \"" + root + "/train\""; }
  static std::string shards_at(const std::string& root) { return "stage = \"read_tar\"\npath = \"" + root + "/*.tar\""; }

  std::string pack() {
    const std::string out = (folder_.path() / "bucket" / "shards").string();
    const Outcome packed = succeeded(run_command({tool("pipeline-data"), "pack", pipeline("quickstart.toml"), "--set",
                                                  "data.path=" + shapes(), "--out", out, "--shard-size", "100kB"}));
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(Stream, IsTheSameFromFoldersShardsAndCaches) {
  const auto plain = hashes(folder_at(shapes()));
  const std::string shards = pack();
  EXPECT_GT(std::distance(fs::directory_iterator(shards), fs::directory_iterator()), 3) << "several shards";
  EXPECT_EQ(hashes(shards_at(shards)), plain);
  EXPECT_EQ(hashes(shards_at(shards), "\"read\", \"decode_image\", \"cache\""), plain);
}

TEST_F(Stream, IsTheSameFromS3) {
  if (!have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
  const auto plain = hashes(folder_at(shapes()));
  const std::string shards = pack();
  fs::copy(shapes() + "/train", folder_.path() / "bucket" / "train", fs::copy_options::recursive);
  const Server server(folder_.path(), 100);
  for (const auto& [name, value] : patient(variables(server.url()))) setenv(name.c_str(), value.c_str(), 1);
  EXPECT_EQ(hashes(folder_at("s3://bucket")), plain);
  EXPECT_EQ(hashes(shards_at("s3://bucket/shards")), plain);
}

}  // namespace
}  // namespace millrace::s3::test
