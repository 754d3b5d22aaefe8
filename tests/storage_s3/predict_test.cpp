// Predictions for images below s3://, with weights from there: a folder, a list, shards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "pipelines/command.h"
#include "server.h"

namespace millrace::s3::test {
namespace {

namespace fs = std::filesystem;
using millrace::test::find_file;
using millrace::test::Outcome;
using millrace::test::read_file;
using millrace::test::run_command;
using millrace::test::tool;

constexpr int kPhotos = 23;

class S3Predictions : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
    if (!fs::exists(tool("pipeline-run"))) GTEST_SKIP() << "pipeline-run is not built";
    const Outcome trained =
        run_command({tool("pipeline-run"), millrace::test::pipeline("quickstart.toml"), "--quiet", "--set",
                     "data.path=" + millrace::test::shapes(), "--set", fmt::format("run.folder={}", place("run")), "--set",
                     "run.epochs=0.2", "--set", "run.precision=fp32", "--devices", "cpu"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    put(root(), "photos", "weights/w.safetensors", read_file(find_file(place("run"), "weights.safetensors")));
    put_photos();
    server_.emplace(root(), 7);
    settings_ = patient(variables(server_->url()));
    settings_["MILLRACE_CACHE"] = place("cache");
    for (const auto& [name, value] : settings_) setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override {
    for (const auto& [name, value] : settings_) unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  }

  // In photos/some, in a list next to that folder, and in two shards; and in a local folder.
  void put_photos() {
    fs::create_directories(place("flat"));
    std::vector<std::string> shards[2];
    std::string list = "file_name\n";
    int number = 0;
    for (const auto& entry : fs::recursive_directory_iterator(millrace::test::shapes() + "/test")) {
      if (!entry.is_regular_file() || number == kPhotos) continue;
      const std::string name = std::to_string(100 + number) + ".jpg";
      fs::copy(entry.path(), fs::path(place("flat")) / name);
      put(root(), "photos", "some/" + name, read_file(entry.path()));
      list += "some/" + name + "\n";
      shards[number++ < 10 ? 0 : 1].push_back(name);
    }
    put(root(), "photos", "list.csv", list);
    for (const std::size_t shard : {0U, 1U}) {
      std::vector<std::string> pack = {"/bin/tar", "--create", "--file", place("shard.tar"), "--directory", place("flat")};
      pack.insert(pack.end(), shards[shard].begin(), shards[shard].end());
      ASSERT_EQ(run_command(pack).code, 0);
      put(root(), "photos", fmt::format("shards/s-{}.tar", shard), read_file(place("shard.tar")));
    }
  }

  fs::path root() const { return folder_.path() / "buckets"; }
  std::string place(const char* name) const { return (folder_.path() / name).string(); }

  // Rows of predictions: the last part of the path, and the rest of the row.
  std::vector<std::string> predict(const std::string& data) const {
    fs::remove_all(place("out"));
    const Outcome outcome =
        run_command({tool("pipeline-run"), "--predict", data, "--weights", "s3://photos/weights/w.safetensors", "--out",
                     place("out"), "--devices", "cpu", "--set", "predict.batch.size=9"});
    EXPECT_EQ(outcome.code, 0) << data << ": " << outcome.err;
    std::vector<std::string> rows;
    std::istringstream lines(read_file(fs::path(place("out")) / "predictions.csv"));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      EXPECT_TRUE(line.starts_with(data.starts_with("s3://") ? "s3://photos/" : place("flat"))) << line;
      const std::size_t name = line.find(".jpg");
      rows.push_back(line.substr(name == std::string::npos ? 0 : name - 3));
    }
    return rows;
  }

  TemporaryFolder folder_;
  std::optional<Server> server_;
  Variables settings_;
};

TEST_F(S3Predictions, AreThoseOfTheSameImagesHere) {
  const std::vector<std::string> expected = predict(place("flat"));
  ASSERT_EQ(expected.size(), std::size_t{kPhotos});
  EXPECT_TRUE(expected.front().starts_with("100.jpg,"));
  for (const char* data :
       {"s3://photos/some", "s3://photos/list.csv", "s3://photos/shards/s-{0..1}.tar", "s3://photos/shards/*.tar"})
    EXPECT_EQ(predict(data), expected) << data;
}

}  // namespace
}  // namespace millrace::s3::test
