// Failures of S3 as seen by a pipeline's user.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "pipelines/command.h"
#include "server.h"

namespace millrace::s3::test {
namespace {

TEST(S3Pipeline, EndsWithTheCodeOfAnotherTryWhenThereIsNoServer) {
  Variables settings = patient(variables("http://127.0.0.1:1"));
  settings["no_proxy"] = "127.0.0.1";
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  using millrace::test::tool;
  std::vector<std::string> words = {
      tool("pipeline-run"), millrace::test::pipeline("quickstart.toml"), "--set", "data.path=s3://photos", "--set",
      "run.folder="};
  const auto outcome = millrace::test::run_command(words);
  words.insert(words.end(), {"--processes", "2", "--devices", "cpu*2"});
  const auto of_two = millrace::test::run_command(words);
  for (const auto& [name, value] : settings) unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_EQ(of_two.code, 75) << of_two.err;
  EXPECT_NE(outcome.err.find("cannot list 's3://photos/train'"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("; gave up after 4 attempts in "), std::string::npos) << outcome.err;
}

// A short file trains from a folder and from the same folder in a bucket.
TEST(S3Pipeline, FindsThePartsOfADataSetInABucket) {
  if (!have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
  using millrace::test::tool;
  const TemporaryFolder folder;
  const std::string drawn = (folder.path() / "drawn").string();
  ASSERT_EQ(millrace::test::run_command({tool("pipeline-data"), "shapes", drawn, "--count", "40", "--validation", "20"}).code, 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(drawn)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string name = std::filesystem::relative(entry.path(), drawn).generic_string();
    put(folder.path() / "buckets", "photos", "shapes/" + name, std::string(std::istreambuf_iterator<char>(file), {}));
  }
  const Server server(folder.path() / "buckets", 1000);
  const Variables settings = patient(variables(server.url()));
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const auto check = [&](const std::string& path) {
    return millrace::test::run_command({tool("pipeline-run"), "classify", "--check", "--quiet", "--devices", "cpu", "--set",
                                        "data.path=" + path, "--set", "network.use=quickstart", "--set", "image.side=32", "--set",
                                        "image.short=32", "--set", "train.batch.size=10", "--set", "run.folder="});
  };
  const auto here = check(drawn), there = check("s3://photos/shapes"), one = check("s3://photos/shapes/train");
  for (const auto& [name, value] : settings) unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_EQ(one.code, 0) << one.err;
}

}  // namespace
}  // namespace millrace::s3::test
