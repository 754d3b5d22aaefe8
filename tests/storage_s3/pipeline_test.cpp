// What a user of a pipeline sees of S3 when it fails.
#include <gtest/gtest.h>

#include <cstdlib>

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
  words.insert(words.end(), {"--processes", "2"});
  const auto of_two = millrace::test::run_command(words);
  for (const auto& [name, value] : settings) unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_EQ(of_two.code, 75) << of_two.err;
  EXPECT_NE(outcome.err.find("cannot list 's3://photos/train'"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("; gave up after 4 attempts in "), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace millrace::s3::test
