#include "report/run_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "testkit/files.h"
#include "testkit/small_files.h"

namespace millrace::run_log_test {
namespace {

// Records the numbers of reported bad samples.
class Counts : public RunObserver {
 public:
  void bad_sample(const BadSampleEvent& e) override { counts.push_back(e.count); }
  void step(const StepEvent& e) override { rates.push_back(e.images_per_second); }
  // Read after a flush:
  std::vector<std::uint64_t> counts;
  std::vector<double> rates;
};

struct Log {
  explicit Log(RunLog::Options options = {.stepping_graph = "train"}) : log(std::move(options), observers, requests) {
    observers.add("counts", Delivery::all, told, requests.control("counts"));
    observers.start({}, {});
  }
  void bad(const std::string& graph, std::uint64_t epoch, std::uint64_t position) {
    BadSampleEvent event;
    event.graph = graph;
    event.epoch = epoch;
    event.position = position;
    event.action = "skipped";
    log.findings().bad_samples.add(std::move(event));
  }
  std::vector<std::uint64_t> counts() {
    observers.flush({});
    return told->counts;
  }

  const std::shared_ptr<Counts> told = std::make_shared<Counts>();
  Requests requests{[](const ObserverEvent&) {}};
  Observers observers;
  RunLog log;
};

// 10 positions of epoch 1 are done, and a validation was stopped.
SavedState stopped() {
  Log run;
  run.bad("train", 1, 3);
  run.bad("train", 1, 17);
  run.bad("validate", 1, 5);
  run.log.findings().bad_samples.done("validate", UINT64_MAX, 0);
  run.bad("validate", 1, 6);
  run.log.findings().bad_samples.done("train", 0, 10);
  SavedState state;
  run.log.findings().bad_samples.save(state);
  return read_saved_state(to_json(state));
}

TEST(RunLog, KnowsWhichBadSamplesComeAgain) {
  const SavedState state = stopped();
  EXPECT_EQ(state.bad_samples, 4U);
  EXPECT_EQ(state.bad_and_ahead, (std::vector<SavedState::BadSample>{{"train", 1, 17, 0}, {"validate", 1, 6, 0}}));
}

TEST(RunLog, ARunThatGoesOnTellsEachBadSampleOnce) {
  Log run;
  run.log.findings().bad_samples.restore(stopped());
  run.bad("validate", 1, 6);
  run.bad("train", 1, 17);
  EXPECT_EQ(run.counts(), std::vector<std::uint64_t>{});
  EXPECT_EQ(run.log.findings().bad_samples.skipped("validate"), 1U) << "of the pass that is made again";
  run.log.findings().bad_samples.done("validate", UINT64_MAX, 0);
  run.bad("train", 1, 18);
  run.bad("validate", 1, 6);  // in the next pass
  EXPECT_EQ(run.counts(), (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(run.log.findings().bad_samples.count(), 6U);
  SavedState next;  // stopped before their step is done
  run.log.findings().bad_samples.save(next);
  EXPECT_EQ(next.bad_and_ahead,
            (std::vector<SavedState::BadSample>{{"train", 1, 17, 0}, {"train", 1, 18, 0}, {"validate", 1, 6, 0}}));
}

TEST(RunLog, AStepIsToldWhenAllThatWasPromisedHasCome) {
  Log run;
  run.log.promise_scalar("train", 4, "gradient_norm");
  RunServices::StepReport report;
  report.graph = "train";
  report.step = 4;
  run.log.report(report);
  run.log.findings().steps.done(4);
  EXPECT_TRUE(run.log.findings().steps.has_reported_until(4));
  EXPECT_FALSE(run.log.findings().steps.has_reported_until(5));
  run.log.scalar("train", 4, "gradient_norm", 1.5);
  EXPECT_TRUE(run.log.findings().steps.has_reported_until(5));
}

TEST(RunLog, TheRateOfAStepBehindAStandstillIsThatOfTheStep) {
  Log run;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  run.log.findings().steps.times_from_now();
  RunServices::StepReport report;
  report.graph = "train";
  report.samples = 1;
  run.log.report(report);
  run.log.findings().steps.done(0);
  run.observers.flush({});
  ASSERT_EQ(run.told->rates.size(), 1U);
  EXPECT_GT(run.told->rates[0], 15) << "it took no tenth of a second";
}

// step_done() is not called then, and waiting entries would grow with each step.
TEST(RunLog, OfAnEvaluationKeepsNoStep) {
  Log run{{.stepping_graph = "validate", .reports_steps = false}};
  RunServices::StepReport report;
  report.graph = "validate";
  report.step = 4;
  run.log.report(report);
  run.log.scalar("validate", 4, "gradient_norm", 1.5);
  EXPECT_TRUE(run.log.findings().steps.has_reported_until(5));
  EXPECT_EQ(run.log.findings().epochs.of("validate", 0).steps, 1U);
}

RunServices::StepReport validated(std::uint64_t step, double loss) {
  RunServices::StepReport report;
  report.graph = "validate";
  report.step = step;
  report.sums.values = {loss, 1};
  report.samples = 1;
  return report;
}

// As when an observer requests a stop, or time is up, during the last evaluation.
TEST(RunLog, APassThatWasStoppedLeavesNothingToTheNext) {
  Log run;
  EpochSums& epochs = run.log.findings().epochs;
  epochs.begin_pass("validate");
  run.log.report(validated(0, 5));
  epochs.begin_pass("validate");
  for (const std::uint64_t step : {0, 1}) run.log.report(validated(step, 2));
  EXPECT_EQ(epochs.of("validate", 0).samples, 2);
  EXPECT_EQ(epochs.of("validate", 0).sums.loss(), 4);
}

// It once polled 5,000 times a second, and copied a class matrix each time.
TEST(RunLog, OneThatWaitsForStepsIsWokenByTheLastOfThem) {
  Log run;
  const EpochSums& epochs = run.log.findings().epochs;
  constexpr auto kAMoment = std::chrono::milliseconds(1), kForever = std::chrono::milliseconds(600'000);
  run.log.report(validated(0, 5));
  EXPECT_EQ(epochs.await("validate", 0, 1, kForever), 1U);
  EXPECT_EQ(epochs.await("validate", 0, 2, kAMoment), 1U) << "it waits no longer than that";
  EXPECT_EQ(epochs.await("validate", 1, 1, kAMoment), 0U);
  std::thread reports([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.log.report(validated(1, 2));
  });
  EXPECT_EQ(epochs.await("validate", 0, 2, kForever), 2U);
  reports.join();
}

// Rank 0 did a step of the first pass before it stopped; rank 1 did not.
TEST(RunLog, StepsOfTwoPassesAreNotAddedUp) {
  Log run;
  run.log.share_reports(2, nullptr);
  EpochSums& epochs = run.log.findings().epochs;
  epochs.begin_pass("validate");
  run.log.report(validated(0, 5));
  run.log.report(1, 2, validated(0, 2));  // rank 1 is ahead
  EXPECT_EQ(epochs.of("validate", 0).steps, 0U);
  epochs.begin_pass("validate");
  run.log.report(1, 1, validated(0, 5));  // a late report
  EXPECT_EQ(epochs.of("validate", 0).steps, 0U);
  run.log.report(validated(0, 2));
  EXPECT_EQ(epochs.of("validate", 0).steps, 1U);
  EXPECT_EQ(epochs.of("validate", 0).sums.loss(), 4);
}

// The copy of the pipeline is for people only.
TEST(RunLog, ARunThatGoesOnNeedsNoNewCopyOfItsPipeline) {
  const testkit::TestFolder folder;
  Value pipeline;
  pipeline.set("seed", Value(std::int64_t{1}));
  const auto open = [&](bool resumes) {
    Log run;
    run.log.set_folder(folder.path());
    keep_pipeline(pipeline, resumes, run.log);
  };
  const auto text = [&] {
    std::ifstream file(folder.path() / "pipeline.toml");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  open(false);
  EXPECT_EQ(text(), "seed = 1\n");
  pipeline.set("seed", Value(std::int64_t{23}));
  {
    const testkit::SmallFiles full(4);
    EXPECT_NO_THROW(open(true));
    EXPECT_EQ(text(), "seed = 1\n") << "it is as it was, and whole";
    EXPECT_EQ(testkit::error_of([&] { open(false); }).kind(), ErrorKind::run);
  }
  open(true);
  EXPECT_EQ(text(), "seed = 23\n");
}

TEST(RunLog, ARunThatGoesOnRemovesWhatAKilledOneHasLeft) {
  const testkit::TestFolder folder;
  const std::string gone = folder.write("evaluation/figures.csv.new-2147483647");
  const std::string alive = folder.write(fmt::format("evaluation/figures.csv.new-{}", ::getpid()));
  const std::vector<std::string> others = {folder.write("notes.new"), folder.write("x.new-2147483647b"), folder.write("a.csv")};
  Log run;
  run.log.set_folder(folder.path());
  keep_pipeline(Value(Table{}), true, run.log);
  EXPECT_FALSE(std::filesystem::exists(gone));
  EXPECT_TRUE(std::filesystem::exists(alive)) << "a process writes it";
  for (const std::string& other : others) EXPECT_TRUE(std::filesystem::exists(other)) << other;
}

}  // namespace
}  // namespace millrace::run_log_test
