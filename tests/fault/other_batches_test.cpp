// A run that continues with larger batches: every epoch ends with its line and its validation, even if it is over at once.
#include <algorithm>

#include "fault_runner.h"

namespace millrace::test::other_batches_test {
namespace {

// 3 epochs of 120 samples: 5 steps of 24, or 1 of 70. After three of the smaller steps no larger one is left.
class LargerBatches : public RunTest {
 protected:
  Outcome go_on_behind(std::uint64_t step) const {
    Words set = kSet;
    set.emplace_back("train.batch.size=70");
    return run("runs", set, {"--resume", checkpoint_in("runs", step), "--allow-change", "train.batch.size"});
  }
  static std::vector<std::uint64_t> steps_of(const Outcome& outcome, const std::string& event) {
    std::vector<std::uint64_t> steps;
    for (const auto& each : events(outcome, event)) steps.push_back(each.at("step"));
    return steps;
  }

  const Words kSet = {"run.epochs=3", "validate.every=epoch", "checkpoint.every=1 step", "checkpoint.keep=100",
                      "observe.results={}"};
};

TEST_F(LargerBatches, AnEpochThatIsOverAtOnceHasItsLineAndItsValidation) {
  const Outcome whole = succeeded(run("runs", kSet));
  const Outcome resumed = succeeded(go_on_behind(8));
  EXPECT_EQ(resumed.err.find("a second time"), std::string::npos) << resumed.err;
  EXPECT_EQ(steps_of(resumed, "resume"), (std::vector<std::uint64_t>{8}));
  EXPECT_EQ(events(resumed, "resume").at(0).at("first_step"), 3);
  EXPECT_EQ(steps_of(resumed, "step"), (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(steps_of(resumed, "epoch"), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(steps_of(resumed, "validate"), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(steps_of(resumed, "checkpoint"), (std::vector<std::uint64_t>{2, 3}));
  double loss = 0;
  for (const auto& step : events(whole, "step")) {
    if (step.at("step") >= 6 && step.at("step") <= 8) loss += step.at("loss").get<double>() / 3;
  }
  const auto epoch = events(resumed, "epoch").at(0);
  EXPECT_EQ(epoch.at("epoch"), 2);
  EXPECT_NEAR(epoch.at("loss"), loss, 1e-6) << "of the steps that were done of it";
  EXPECT_NE(read_file(run_in("runs") / "results.csv").find("\ntrain,1,2,"), std::string::npos) << "the first epoch's row stays";
}

TEST_F(LargerBatches, TheLastEpochTooThoughNoStepIsLeft) {
  ASSERT_EQ(run("runs", kSet).code, 0);
  const Outcome resumed = succeeded(go_on_behind(13));
  EXPECT_EQ(steps_of(resumed, "step"), (std::vector<std::uint64_t>{}));
  EXPECT_EQ(steps_of(resumed, "epoch"), (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(steps_of(resumed, "validate"), (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(steps_of(resumed, "checkpoint"), (std::vector<std::uint64_t>{3}));
  EXPECT_FALSE(read_file(run_in("runs") / "weights.safetensors").empty());
}

// The run that began in the middle does half an epoch.
TEST_F(LargerBatches, ARunThatBeganWithinAnEpochCountsItsSteps) {
  const Outcome began = succeeded(run("runs", kSet, {"--from", "2:2"}));
  Words set = kSet;
  set.emplace_back("train.batch.size=48");
  const Outcome resumed =
      succeeded(run("runs", set, {"--resume", checkpoint_in("runs", 9), "--allow-change", "train.batch.size"}));
  EXPECT_EQ(resumed.err.find("were reported within"), std::string::npos) << resumed.err;
  EXPECT_EQ(steps_of(resumed, "epoch").size(), 2U);
}

}  // namespace
}  // namespace millrace::test::other_batches_test
