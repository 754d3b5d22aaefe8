// Which checkpoint a run resumes from, tested without devices or files.
#include "checkpoint/resume.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/run_folder.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::resume_test {
namespace {

using Texts = std::vector<std::string>;

constexpr const char *kNewer = "runs/x/2026-01-02T00-00-00", *kOlder = "runs/x/2026-01-01T00-00-00";

Pipeline pipeline_with(const std::string& checkpoint_folder = {}) {
  Pipeline pipeline;
  pipeline.file = "x.toml";
  pipeline.run.name = "x";
  pipeline.run.folder = "runs";
  pipeline.checkpoint.wanted = true;
  pipeline.checkpoint.folder = checkpoint_folder;
  return pipeline;
}

ResumeRequest request_of(const Pipeline& pipeline, const std::optional<std::string>& run) {
  const auto request = resume_request(pipeline, {.run = run, .saves_checkpoints = true});
  EXPECT_TRUE(request);
  return request.value_or(ResumeRequest{});
}

ResumePlaces places_with(std::vector<RunCandidate> candidates, const std::string& checkpoint_folder = {}) {
  const bool has_runs = !candidates.empty();
  return {.runs = "runs/x", .checkpoint_folder = checkpoint_folder, .has_runs = has_runs, .candidates = std::move(candidates)};
}

std::string refusal(const ResumeRequest& request, const ResumePlaces& places) {
  return testkit::error_of([&] { choose_resume(request, places); }).message();
}

// Runs of one name in a folder, each with a place for checkpoints.
class RunOrder : public testing::Test {
 protected:
  RunOrder() { pipeline_.run.folder = folder_.path().string(); }
  void add(const std::string& run, const std::string& number = {}) const {
    const std::filesystem::path checkpoints = folder_.path() / "x" / run / "checkpoints";
    std::filesystem::create_directories(checkpoints);
    if (!number.empty()) point_to(checkpoints, RunPlaces::kNumber, number);
  }
  Texts newest_first() const {
    Texts names;
    for (const auto& run : RunPlaces(pipeline_, registry_).runs_with_checkpoints()) names.push_back(run.filename());
    return names;
  }
  std::uint64_t next_number() const { return RunPlaces(pipeline_, registry_).next_number(); }

  const testkit::TestFolder folder_;
  Pipeline pipeline_ = pipeline_with();
  const Registry registry_;
};

TEST_F(RunOrder, IsWrittenDownAndNotReadFromClocks) {
  EXPECT_EQ(next_number(), 1U);
  add("2028-01-01T00-00-00", "1");  // a clock that ran ahead
  add("2026-01-01T00-00-00", "2");
  add("1970-01-01T00-00-07", "10");  // a board without a clock battery
  add("2026-01-02T00-00-00", "9");
  EXPECT_EQ(newest_first(), (Texts{"1970-01-01T00-00-07", "2026-01-02T00-00-00", "2026-01-01T00-00-00", "2028-01-01T00-00-00"}));
  EXPECT_EQ(next_number(), 11U);
}

TEST_F(RunOrder, HasRunsOfEarlierVersionsFirstAndAmongEqualOnesFollowsLatest) {
  add("2028-01-01T00-00-00");
  add("2026-01-01T00-00-00");
  add("2026-01-02T00-00-00");
  EXPECT_EQ(newest_first(), (Texts{"2028-01-01T00-00-00", "2026-01-02T00-00-00", "2026-01-01T00-00-00"}));
  EXPECT_EQ(point_latest_to(folder_ / "x/2026-01-02T00-00-00"), "");
  EXPECT_EQ(newest_first(), (Texts{"2026-01-02T00-00-00", "2028-01-01T00-00-00", "2026-01-01T00-00-00"}));
  EXPECT_EQ(next_number(), 1U);
  add("1970-01-01T00-00-00", "1");
  add("1970-01-01T00-00-01", "1");  // two that began in the same second
  add("1970-01-01T00-00-02_backup", "7");
  EXPECT_EQ(newest_first(), (Texts{"1970-01-01T00-00-01", "1970-01-01T00-00-00", "2026-01-02T00-00-00", "2028-01-01T00-00-00",
                                   "2026-01-01T00-00-00"}));
}

TEST(ResumeRequest, NamesARunOrACheckpointInIt) {
  const Pipeline own = pipeline_with(), elsewhere = pipeline_with("/disk");
  EXPECT_EQ(request_of(own, "").run, "");
  for (const char* named : {kOlder, "runs/x/./2026-01-01T00-00-00/"}) {
    EXPECT_EQ(request_of(own, named).run, kOlder);
    EXPECT_EQ(request_of(own, named).checkpoint, "");
  }
  const ResumeRequest in_run = request_of(own, std::string(kOlder) + "/checkpoints/step-000000005");
  EXPECT_EQ(in_run.run, kOlder);
  EXPECT_EQ(in_run.checkpoint, "step-000000005");
  const ResumeRequest on_disk = request_of(elsewhere, "/disk/x/2026-01-01T00-00-00/step-000000005");
  EXPECT_EQ(on_disk.run, kOlder);
  EXPECT_EQ(on_disk.checkpoint, "step-000000005");
}

TEST(ResumeRequest, IsMadeByAUserOrByTheFile) {
  Pipeline pipeline = pipeline_with();
  EXPECT_FALSE(resume_request(pipeline, {.saves_checkpoints = true}));
  EXPECT_TRUE(request_of(pipeline, "").is_explicit);
  EXPECT_FALSE(resume_request(pipeline, {.run = "", .replays = true})) << "without a checkpoint it begins with the first step";
  pipeline.checkpoint.resume = true;
  EXPECT_FALSE(request_of(pipeline, {}).is_explicit);
  EXPECT_FALSE(resume_request(pipeline, {.saves_checkpoints = true, .begins_elsewhere = true}));
}

TEST(ResumeRequest, OptionsThatContradictEachOtherAreMistakes) {
  Pipeline pipeline = pipeline_with();
  const auto mistake = [&](const ResumeOptions& options) {
    return testkit::error_of([&] { resume_request(pipeline, options); }).message();
  };
  EXPECT_NE(mistake({.saves_checkpoints = true, .allows_changes = true}).find("it needs --resume"), std::string::npos);
  EXPECT_MESSAGE(mistake({.run = ""}));
  EXPECT_MESSAGE(mistake({.run = "", .saves_checkpoints = true, .begins_elsewhere = true}));
  pipeline.run.folder.clear();
  EXPECT_MESSAGE(mistake({.saves_checkpoints = true}));
}

TEST(ResumeChoice, IsTheNewestRunWithACheckpointThatCanBeUsed) {
  const ResumeRequest request = request_of(pipeline_with(), "");
  const ResumeChoice newest = choose_resume(request, places_with({{kNewer, "step-000000008"}}));
  EXPECT_EQ(newest.candidate, 0U);
  EXPECT_EQ(newest.warnings, Texts());
  const ResumeChoice older =
      choose_resume(request, places_with({{kNewer, "", {"'a' cannot be used"}}, {kOlder, "step-000000004"}}));
  EXPECT_EQ(older.candidate, 1U);
  EXPECT_EQ(older.warnings,
            (Texts{"'a' cannot be used",
                   std::string("the run in '") + kNewer + "' has no usable checkpoint: the one in '" + kOlder + "' is resumed"}));
}

TEST(ResumeChoice, ADamagedCheckpointIsSaidAndTheOneBeforeIsTaken) {
  const ResumeChoice choice = choose_resume(request_of(pipeline_with(), ""),
                                            places_with({{kNewer, "step-000000004", {"'step-000000008' cannot be used"}}}));
  EXPECT_EQ(choice.candidate, 0U);
  EXPECT_EQ(choice.warnings, Texts{"'step-000000008' cannot be used"});
}

TEST(ResumeChoice, WithoutACheckpointAUserIsRefusedAndTheFileBeginsARun) {
  Pipeline pipeline = pipeline_with("/disk");
  EXPECT_MESSAGE(refusal(request_of(pipeline, ""), places_with({}, "/disk")));
  EXPECT_MESSAGE(refusal(request_of(pipeline, kOlder), places_with({{kOlder}})));
  pipeline.checkpoint.resume = true;
  const ResumeRequest by_file = request_of(pipeline, {});
  EXPECT_EQ(choose_resume(by_file, places_with({})).warnings, Texts()) << "the first run";
  const ResumeChoice again = choose_resume(by_file, places_with({{kOlder}}, "/disk"));
  EXPECT_FALSE(again.candidate);
  EXPECT_EQ(again.warnings, Texts{"a new run begins: no run in 'runs/x' has a checkpoint in checkpoint.folder = \"/disk\""});
}

TEST(ResumeChoice, NoRunBeginsWhereAllCheckpointsAreDamaged) {
  Pipeline pipeline = pipeline_with();
  pipeline.checkpoint.resume = true;
  EXPECT_EQ(refusal(request_of(pipeline, {}), places_with({{kOlder, "", {"'a' cannot be used", "'b' cannot be used"}}})),
            "resume = \"auto\": no run in 'runs/x' has a checkpoint that can be used; to begin a new run, leave out resume, or "
            "give it another run.name\n  'a' cannot be used\n  'b' cannot be used");
  const ResumeRequest named = request_of(pipeline, std::string(kOlder) + "/checkpoints/step-000000007");
  EXPECT_MESSAGE(refusal(named, places_with({{kOlder, "", {"'step-000000007' cannot be used: it is gone"}}})));
}

TEST(ResumeChoice, AReplayBeginsWithTheFirstStepWhereThereIsNoCheckpoint) {
  ResumeRequest request = request_of(pipeline_with(), kOlder);
  request.replays = true;
  const ResumeChoice choice = choose_resume(request, places_with({{kOlder, "", {"'a' cannot be used"}}}));
  EXPECT_FALSE(choice.candidate);
  EXPECT_EQ(choice.warnings, Texts{"'a' cannot be used"});
}

}  // namespace
}  // namespace millrace::resume_test
