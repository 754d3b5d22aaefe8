// Runs with checkpoints in a bucket end like runs with a folder, through kills and a failing server.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "pipelines/command.h"
#include "server.h"

namespace millrace::s3::test {
namespace {

namespace fs = std::filesystem;
using millrace::test::events;
using millrace::test::Interruption;
using millrace::test::Outcome;
using millrace::test::read_file;

// The quick start with 3 epochs of 4 steps; checkpoints after 5, 10 and 12.
class S3Checkpoints : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
    if (!fs::exists(millrace::test::tool("pipeline-run"))) GTEST_SKIP() << "pipeline-run is not built";
    fs::create_directories(folder_.path() / "bucket");
    server_.emplace(folder_.path(), 1000);
    Variables settings = patient(variables(server_->url()));
    settings["MILLRACE_S3_ATTEMPTS"] = "2";
    for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }

  // `runs`: the folder of runs, separate on each machine.
  Outcome run(const std::string& runs, const std::string& checkpoints, const std::vector<std::string>& options = {},
              const Interruption& interruption = {}) const {
    return run_command(
        millrace::test::with(
            {millrace::test::tool("pipeline-run"), millrace::test::pipeline("quickstart.toml"), "--json"},
            {"data.path=" + millrace::test::shapes(), "run.folder=" + (folder_.path() / runs).string(), "run.epochs=3",
             "checkpoint.every=5 steps", "checkpoint.keep=2", "checkpoint.resume=auto", "checkpoint.folder=" + checkpoints},
            options),
        interruption);
  }
  std::string weights_in(const std::string& runs) const {
    return read_file(millrace::test::find_file(folder_.path() / runs, "weights.safetensors"));
  }
  // The objects whose keys have this ending; their files have encoded names.
  std::vector<std::string> objects_that_end(const std::string& end) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path() / "bucket")) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(end)) found.push_back(entry.path().string());
    }
    return found;
  }

  TemporaryFolder folder_;
  std::optional<Server> server_;
};

TEST_F(S3Checkpoints, AKilledRunGoesOnElsewhereAndEndsAsIfItHadNotBeen) {
  const Outcome whole = succeeded(run("whole", ""));

  // The second `latest` is never written: the run waits for an answer until it is killed, once the checkpoint before it is
  // whole.
  server_->control("break/stall_before_head.latest/0/1");
  Interruption kill;
  kill.once = [this] { return objects_that_end("%2Fmanifest.json").size() == 2; };
  kill.signal = SIGKILL;
  kill.limit = 240;
  const Outcome killed = run("killed", "s3://bucket/all/runs", {}, kill);
  EXPECT_EQ(killed.code, 128 + SIGKILL) << killed.err;
  EXPECT_FALSE(killed.killed) << killed.err;
  server_->control("mend");
  const std::vector<std::string> pointers = objects_that_end("%2Flatest");
  ASSERT_EQ(pointers.size(), 1U);
  EXPECT_EQ(read_file(pointers.front()), "step-000000005\n");

  const Outcome resumed = succeeded(run("resumed", "s3://bucket/all/runs"));
  EXPECT_EQ(resumed.err.find("cannot be used"), std::string::npos) << resumed.err;
  ASSERT_EQ(events(resumed, "resume").size(), 1U) << resumed.err;
  EXPECT_EQ(events(resumed, "resume").at(0).at("step"), 5);
  ASSERT_FALSE(weights_in("whole").empty());
  EXPECT_TRUE(weights_in("whole") == weights_in("resumed")) << "the weights differ";
  const std::vector<std::string> last = objects_that_end("%2Flatest");
  ASSERT_FALSE(last.empty());
  EXPECT_EQ(read_file(last.back()), "step-000000012\n");
  EXPECT_EQ(objects_that_end("%2Fmanifest.json").size(), 2U) << "keep = 2";
  const auto written = events(resumed, "checkpoint");
  ASSERT_GE(written.size(), 2U);
  EXPECT_TRUE(std::string(written[1].at("path")).starts_with("s3://bucket/all/runs/quickstart/")) << written[1];
  EXPECT_EQ(server_->control("uploads"), "0");
}

TEST_F(S3Checkpoints, AServerThatFailsHoldsNoTrainingUpAndTheLastOneIsRescued) {
  server_->control("break/http_500.manifest.json/0/1");  // after the first checkpoint
  const std::string rescue = (folder_.path() / "rescue").string();
  const Outcome outcome = run("runs", "s3://bucket/all", {"--rescue", rescue});
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_EQ(events(outcome, "checkpoint").size(), 1U) << outcome.err;
  EXPECT_EQ(events(outcome, "step").size(), 12U);
  EXPECT_NE(outcome.err.find("the last checkpoint was not written: cannot write 's3://bucket/all/quickstart/"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("HTTP 500 InternalError"), std::string::npos) << outcome.err;
  EXPECT_EQ(millrace::test::find_file(rescue, "manifest.json").parent_path().filename(), "step-000000012");
  const std::vector<std::string> pointers = objects_that_end("%2Flatest");
  ASSERT_EQ(pointers.size(), 1U);
  EXPECT_EQ(read_file(pointers.front()), "step-000000005\n");
}

// A run's folder may come from anywhere: its record alone must not make the program contact a bucket.
TEST_F(S3Checkpoints, ABucketThatOnlyTheRecordOfARunNamesIsNotContacted) {
  const fs::path folder = folder_.path() / "runs/quickstart/2026-01-01T00-00-00";
  fs::create_directories(folder);
  std::ofstream(folder / "pipeline.toml") << "[checkpoint]\nfolder = \"s3://bucket/all\"\n";
  const std::string before = server_->control("requests");
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--resume"}, std::vector<std::string>{"--resume", folder.string()}}) {
    const Outcome outcome = run("runs", "", options);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.err.find("s3://"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(server_->control("requests"), before);
}

TEST_F(S3Checkpoints, ABucketThatIsNotThereIsFoundBeforeTheFirstStep) {
  const Outcome outcome = run("runs", "s3://none/all");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("no such bucket"), std::string::npos) << outcome.err;
  EXPECT_EQ(events(outcome, "step").size(), 0U);
}

}  // namespace
}  // namespace millrace::s3::test
