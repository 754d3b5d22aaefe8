// A resumed run that first verifies its data (--verify), and bad samples over all parts of a run.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "fault_runner.h"

namespace millrace::test::verify_test {
namespace {

namespace fs = std::filesystem;

const Words kEveryStepKept = {"checkpoint.every=1 step", "checkpoint.keep=100"};

class VerifiedRun : public RunTest {
 protected:
  // With its messages to users.
  Outcome resume(const std::string& runs, const Words& options, const Words& set = {}) const {
    Words all = kEveryStepKept;
    all.insert(all.end(), set.begin(), set.end());
    Words words = command(runs, all, options);
    std::erase(words, "--quiet");
    words.emplace_back("--resume");
    Interruption patience;
    patience.limit = 240;
    return run_command(words, patience);
  }
  // A copy of the images that may be damaged.
  std::string own_shapes() const {
    fs::copy(shapes(), folder_ / "own", fs::copy_options::recursive);
    return folder_ / "own";
  }
};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_F(VerifiedRun, GoesOnWhereItsDataIsTheSame) {
  ASSERT_EQ(run("whole", kEveryStepKept).code, 0);
  const LeftByRun whole = left_by(run_in("whole"));
  struct Case {
    std::uint64_t step;  // the checkpoint's; epochs have 5
    std::string asked, said;
  };
  for (const auto& [step, asked, said] : {Case{5, "3", "the last 3 steps before"}, Case{7, "1", "the last 1 step before"},
                                          Case{8, "100", "the last 8 steps before"}}) {
    const std::string runs = fmt::format("step{}", step);
    copy_back_to(step, "whole", runs);
    const Outcome resumed = succeeded(resume(runs, {"--verify", asked}));
    EXPECT_NE(resumed.err.find("verified: the data of " + said), std::string::npos) << resumed.err;
    const bool fewer = resumed.err.find("(it holds no more hashes; 100 were requested)") != std::string::npos;
    EXPECT_EQ(fewer, step == 8) << resumed.err;
    expect_the_same(whole, left_by(run_in(runs)), runs);
  }
}

TEST_F(VerifiedRun, ComparesWhatAllProcessesRead) {
  ASSERT_EQ(run("whole", kEveryStepKept, {"--devices", "cpu*2"}).code, 0);
  copy_back_to(6, "whole", "resumed");
  const Outcome resumed = succeeded(resume("resumed", {"--devices", "cpu*2", "--processes", "2", "--verify", "4"}));
  EXPECT_NE(resumed.err.find("verified: the data of the last 4 steps before"), std::string::npos) << resumed.err;
  const auto state = [&](const std::string& runs) {
    return nlohmann::json::parse(read_file(checkpoint_in(runs, 10) / "state.json"), nullptr, false);
  };
  ASSERT_EQ(state("whole").at("batches").size(), 10U);
  EXPECT_EQ(state("whole").at("batches"), state("resumed").at("batches"));
}

TEST_F(VerifiedRun, AChangedFileIsFoundBeforeAStepIsDone) {
  const std::string root = own_shapes();
  const Words set = {"data.path=" + root};
  Words all = kEveryStepKept;
  all.insert(all.end(), set.begin(), set.end());
  ASSERT_EQ(run("whole", all).code, 0);
  copy_back_to(6, "whole", "stopped");
  const std::vector<fs::path> files = files_in(fs::path(root) / "train" / "ring");
  ASSERT_GT(files.size(), 1U);
  for (std::size_t i = 1; i < files.size(); ++i) {
    fs::copy_file(files[0], files[i], fs::copy_options::overwrite_existing);
  }
  const std::string metrics = read_file(run_in("stopped") / "metrics.jsonl");
  for (const Words& options : {Words{"--verify", "6"}, Words{"--verify", "6", "--allow-change", "run.devices", "--devices",
                                                             "cpu*2", "--processes", "2"}}) {
    const Outcome refused = resume("stopped", options, set);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_NE(refused.err.find("--verify: the batch of step "), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("other samples or draws: its stream hash was "), std::string::npos) << refused.err;
    EXPECT_EQ(events(refused, "step").size(), 0U);
  }
  EXPECT_EQ(read_file(run_in("stopped") / "metrics.jsonl"), metrics);
  EXPECT_EQ(resume("stopped", {}, set).code, 0) << "without --verify it goes on";
}

Words sorted_lines(const fs::path& file) {
  Words found;
  std::istringstream text(read_file(file));
  for (std::string line; std::getline(text, line);) found.push_back(line);
  std::sort(found.begin(), found.end());
  return found;
}

// The folder is that of a run killed long after the checkpoint: its ledger lists samples that repeat.
TEST_F(VerifiedRun, BadSamplesCountOnceInAllPartsOfARun) {
  const std::string root = own_shapes();
  std::size_t spoilt = 0;
  for (const char* part : {"train", "test"}) {
    for (std::size_t i = 0; const fs::path& file : files_in(fs::path(root) / part)) {
      if (i++ % 4 != 0) continue;
      fs::resize_file(file, fs::file_size(file) / 2);
      ++spoilt;
    }
  }
  ASSERT_GT(spoilt, 100U);
  Words set = kEveryStepKept;
  for (const std::string& more : {"data.path=" + root, std::string("train.batch.bad_sample_budget=1000"),
                                  std::string("validate.batch.bad_sample_budget=1000")}) {
    set.push_back(more);
  }
  const Outcome whole = succeeded(run("whole", set));
  const Words ledger = sorted_lines(run_in("whole") / "quarantine.jsonl");
  const std::size_t bad = events(whole, "end").at(0).at("bad_samples");
  EXPECT_GT(bad, 40U);
  EXPECT_EQ(ledger.size(), bad);
  for (const std::uint64_t step : {4, 5, 7}) {
    const std::string runs = fmt::format("step{}", step);
    copy_back_to(step, "whole", runs);
    const auto state = nlohmann::json::parse(read_file(checkpoint_in(runs, step) / "state.json"), nullptr, false);
    EXPECT_TRUE(state.at("stages").contains("batch")) << "the budget of the epoch";
    const Outcome resumed = succeeded(run(runs, set, {"--resume", "--verify", "4"}));
    EXPECT_EQ(events(resumed, "end").at(0).at("bad_samples"), bad) << runs;
    EXPECT_EQ(sorted_lines(run_in(runs) / "quarantine.jsonl"), ledger) << runs;
  }
}

}  // namespace
}  // namespace millrace::test::verify_test
