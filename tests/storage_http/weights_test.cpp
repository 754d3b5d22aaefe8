// Weights from a web server, as seen by users of pipeline-run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "pipelines/command.h"
#include "server.h"

namespace millrace::http::test {
namespace {

namespace fs = std::filesystem;
using millrace::test::find_file;
using millrace::test::Outcome;
using millrace::test::pipeline;
using millrace::test::read_file;
using millrace::test::run_command;
using millrace::test::shapes;
using millrace::test::tool;

class WeightsByUrl : public testing::Test {
 protected:
  void SetUp() override {
    if (!s3::test::have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
    if (!fs::exists(tool("pipeline-run"))) GTEST_SKIP() << "pipeline-run is not built";
    setenv("MILLRACE_CACHE", (folder_.path() / "cache").c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    server_.emplace(folder_.path());
    const Outcome made = succeeded(run({"--set", "run.folder=" + (folder_.path() / "run").string(), "--set", "run.epochs=0.2"}));
    bytes_ = read_file(find_file(folder_.path() / "run", "weights.safetensors"));
    sum_ = sha256(bytes_);
    put(folder_.path() / "plain.safetensors", bytes_);
    named_ = "shapes-" + sum_.substr(0, 8) + ".safetensors";
    put(folder_.path() / named_, bytes_);
    put(folder_.path() / "shapes-01234567.safetensors", bytes_);
  }
  void TearDown() override { unsetenv("MILLRACE_CACHE"); }  // NOLINT(concurrency-mt-unsafe)

  static Outcome run(std::vector<std::string> more) {
    return run_command(
        millrace::test::with({tool("pipeline-run"), pipeline("quickstart.toml"), "--quiet"}, {"data.path=" + shapes()}, more));
  }
  Outcome check(const std::string& name, const std::string& sum = "") const {
    std::vector<std::string> words = {"--check", "--set", "network.weights=" + *server_ / name};
    if (!sum.empty()) words.insert(words.end(), {"--set", "network.sha256=\"" + sum + "\""});
    return run(words);
  }
  // Files of weights in the cache folder, whole or not, excluding locks.
  int cached() const {
    int count = 0;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_.path() / "cache/weights", none)) {
      count += entry.path().extension() != ".lock";
    }
    return count;
  }

  TemporaryFolder folder_;
  std::optional<WebServer> server_;
  std::string bytes_, sum_, named_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(WeightsByUrl, AreFetchedOnceAndReadWithoutTheServerAfterwards) {
  const Outcome first = succeeded(check("plain.safetensors", sum_));
  EXPECT_SAYS(first.out, "weights  " + *server_ / "plain.safetensors" + " in " + (folder_.path() / "cache/weights").string());
  EXPECT_EQ(cached(), 1);
  const int requests = server_->requests();
  ASSERT_EQ(check("plain.safetensors", sum_).code, 0);
  EXPECT_EQ(server_->requests(), requests);
  const std::string url = *server_ / "plain.safetensors";
  server_.reset();
  const Outcome second = succeeded(run({"--check", "--weights", url}));
}

TEST_F(WeightsByUrl, ThatAreNotThereOrAreNoneAreNotKept) {
  const Outcome missing = check("nothing.pth");
  EXPECT_EQ(missing.code, 3);
  EXPECT_SAYS(missing.err, "HTTP 404 (no such file)");
  put(folder_.path() / "page.pth", "<html>log in first</html>");
  const Outcome page = check("page.pth");
  EXPECT_EQ(page.code, 3);
  EXPECT_SAYS(page.err, "deleted, as it holds no weights");
  EXPECT_EQ(cached(), 0);
  EXPECT_SAYS(run({"--check", "--set", "network.weights=htps://host/x"}).err, "no plugin reads 'htps://'");
}

TEST_F(WeightsByUrl, AreFetchedByOneOfSeveralProcesses) {
  const int before = server_->requests();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { const Outcome outcome = succeeded(check("plain.safetensors", sum_)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_->requests(), before + 1) << "with --quiet, nobody asks for the size";
  EXPECT_EQ(cached(), 1);
}

TEST_F(WeightsByUrl, AreTakenByTheWordOfANetworksFile) {
  const fs::path network = folder_.path() / "named.toml";
  put(network, read_file(pipeline("networks/quickstart.toml")) + "\n[published.lab]\nurl = \"" + *server_ / named_ + "\"\n");
  const auto check_with = [&](const std::vector<std::string>& more) {
    return run_command(millrace::test::with({tool("pipeline-run"), pipeline("quickstart.toml"), "--check"},
                                            {"data.path=" + shapes(), "network.use=" + network.string()}, more));
  };
  const Outcome first = succeeded(check_with({"--weights", "lab", "--json"}));
  EXPECT_SAYS(first.err, "fetching the weights '" + *server_ / named_ + "', ");
  EXPECT_SAYS(first.err, " MiB, once, into '" + (folder_.path() / "cache/weights").string());
  EXPECT_EQ(first.err.find("warning: fetching"), std::string::npos) << first.err;
  EXPECT_EQ(first.out.find("fetching"), std::string::npos) << first.out;
  EXPECT_EQ(cached(), 1);
  const Outcome wrong = check_with({"--weights", "lba"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_SAYS(wrong.err, "the network's file has the published weights \"lab\"");
  server_.reset();
  const Outcome second = succeeded(check_with({"--set", "network.weights=lab"}));
  EXPECT_EQ(second.err.find("fetching"), std::string::npos) << second.err;
}

}  // namespace
}  // namespace millrace::http::test
