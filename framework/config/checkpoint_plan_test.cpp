// [checkpoint] in a pipeline file.
#include "config/checkpoint_plan.h"

#include <fmt/format.h>

#include "config/plan_fixture.h"

#include "testkit/messages.h"

namespace millrace::plan_test {
namespace {

class CheckpointTable : public PlanFixture {
 protected:
  // `more` begins in line 8.
  CheckpointPlan with(const std::string& more) { return load(train(more)).checkpoint; }
  std::string mistakes_with(const std::string& more) { return mistakes(train(more)); }
};

TEST_F(CheckpointTable, TheNewestOfEachEpochIsKeptWhereTheFileSaysNothing) {
  const CheckpointPlan plan = with("");
  EXPECT_TRUE(plan.wanted && plan.by_default);
  EXPECT_TRUE(plan.due(20, 10, 100));
  EXPECT_FALSE(plan.due(25, 10, 100));
  EXPECT_EQ(plan.keep, 1U);
  EXPECT_FALSE(with("[checkpoint]\n").by_default);
}

TEST_F(CheckpointTable, ThereAreNoneWithoutAFolderOrWhereTheFileSaysNever) {
  for (const char* const more : {"[checkpoint]\nevery = \"never\"\n", "[run]\nfolder = \"\"\n"}) {
    const CheckpointPlan plan = with(more);
    EXPECT_FALSE(plan.wanted) << more;
    EXPECT_FALSE(plan.due(100, 10, 100)) << more;
  }
}

TEST_F(CheckpointTable, CheckpointsHaveDefaults) {
  const CheckpointPlan plan = with("[checkpoint]\n");
  EXPECT_TRUE(plan.wanted);
  EXPECT_TRUE(plan.due(20, 10, 100));
  EXPECT_FALSE(plan.due(25, 10, 100));
  EXPECT_EQ(plan.keep, 3U);
  EXPECT_FALSE(plan.resume);
  EXPECT_FALSE(plan.best);
}

TEST_F(CheckpointTable, AFolderMayBeAUrlOfOne) {
  EXPECT_EQ(with("[checkpoint]\nfolder = \"file:///a%20b\"\n").folder, "/a b");
  EXPECT_EQ(with("[checkpoint]\nfolder = \"s3://b/a%20b\"\n").folder, "s3://b/a%20b");
  EXPECT_EQ(load(train("[run]\nfolder = \"file:///a%20b\"\n")).run.folder, "/a b");
  EXPECT_MESSAGE(mistakes_with("[run]\nfolder = \"s3://b/x\"\n"));
}

TEST_F(CheckpointTable, SaysWhenCheckpointsAreWritten) {
  const CheckpointPlan steps = with("[checkpoint]\nevery = \"7 steps\"\nkeep = 5\nresume = \"auto\"\nbest = \"train.loss\"\n");
  EXPECT_TRUE(steps.due(14, 10, 100));
  EXPECT_FALSE(steps.due(10, 10, 100));
  EXPECT_EQ(steps.keep, 5U);
  EXPECT_TRUE(steps.resume);
  EXPECT_EQ(steps.best->text(), "train.loss");
  const CheckpointPlan minutes = with("[checkpoint]\nevery = \"10 minutes\"\n");
  EXPECT_EQ(minutes.seconds, 600);
  for (const CheckpointPlan& plan : {minutes, with("[checkpoint]\nevery = \"end\"\n")}) {
    EXPECT_FALSE(plan.due(10, 10, 100));
    EXPECT_TRUE(plan.due(100, 10, 100));
  }
}

TEST_F(CheckpointTable, SaysWhichCheckpointsAreKeptForEver) {
  EXPECT_EQ(with("[checkpoint]\n").keep_every.times(1000, 10), 0U);
  EXPECT_EQ(with("[checkpoint]\nkeep_every = \"300 steps\"\n").keep_every.times(1000, 10), 3U);
  EXPECT_EQ(with("[checkpoint]\nkeep_every = \"10 epochs\"\n").keep_every.times(1000, 10), 10U);
  for (const char* wrong : {"end", "never", "10 minutes"}) {
    const std::string said = mistakes_with(fmt::format("[checkpoint]\nkeep_every = \"{}\"\n", wrong));
    EXPECT_NE(said.find("'keep_every' must look like \"1000 steps\" or \"10 epochs\", found "), std::string::npos) << said;
  }
}

TEST_F(CheckpointTable, AnswersMistakesInCheckpoint) {
  for (const std::string every : {"10 minutos", "1.5 steps", "soon"}) {
    const std::string said = mistakes_with("[checkpoint]\nevery = \"" + every + "\"\n");
    EXPECT_NE(said.find("'every' must be \"epoch\", \"end\", \"never\", such as "), std::string::npos) << said;
    EXPECT_NE(said.find("found \"" + every + "\""), std::string::npos) << said;
  }
  EXPECT_MESSAGE(mistakes_with("[checkpoint]\nevry = \"epoch\"\n"));
  EXPECT_MESSAGE(mistakes_with("[checkpoint]\nbest = \"tran.loss\"\n"));
  EXPECT_NE(mistakes_with("[checkpoint]\nkeep = 0\n").find("'keep'"), std::string::npos);
}

}  // namespace
}  // namespace millrace::plan_test
