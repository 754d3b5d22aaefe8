// [stop], run.best and `before` in a pipeline file.
#include "config/plan_fixture.h"

#include "testkit/messages.h"

namespace millrace::plan_test {
namespace {

constexpr const char* kValidate =
    "[validate]\n"  // 8
    "every = \"epoch\"\n"
    "flow = [\"read\", \"decode_image\", \"batch\"]\n"
    "[validate.read]\n"
    "stage = \"read_folder\"\n"
    "path = \"y\"\n"
    "[validate.batch]\n"
    "size = 4\n";

class StopTable : public PlanFixture {
 protected:
  // `more` begins in line 16.
  Pipeline with(const std::string& more) { return load(train(kValidate) + more); }
  std::string mistakes_with(const std::string& more) { return mistakes(train(kValidate) + more); }
};

TEST_F(StopTable, SaysWhatEndsARun) {
  const Pipeline pipeline =
      with("[stop]\nfigure = \"validate.accuracy\"\npatience = 3\nmax_time = \"2 hours\"\nmax_steps = 70\n");
  ASSERT_TRUE(pipeline.stop.figure);
  EXPECT_EQ(pipeline.stop.figure->graph, "validate");
  EXPECT_EQ(pipeline.stop.figure->name, "accuracy");
  EXPECT_EQ(pipeline.stop.patience, 3U);
  EXPECT_EQ(pipeline.stop.max_seconds, 7200);
  EXPECT_EQ(pipeline.stop.max_steps, 70U);
}

TEST_F(StopTable, IsNotNeeded) {
  const Pipeline pipeline = with("");
  EXPECT_FALSE(pipeline.stop.figure);
  EXPECT_EQ(pipeline.stop.max_seconds, 0);
  EXPECT_EQ(pipeline.stop.max_steps, 0U);
  EXPECT_FALSE(pipeline.best);
}

TEST_F(StopTable, TakesEpochsOfTheMainGraphToo) {
  EXPECT_EQ(with("[stop]\nfigure = \"train.loss\"\n").stop.figure->text(), "train.loss");
}

TEST_F(StopTable, APlateauIsATableOfItsOwn) {
  const Pipeline pipeline = with("[plateau]\nfigure = \"validate.loss\"\npatience = 3\nfactor = 0.5\n");
  EXPECT_EQ(pipeline.plateau.figure->text(), "validate.loss");
  EXPECT_EQ(pipeline.plateau.patience, 3U);
  EXPECT_EQ(pipeline.plateau.factor, 0.5);
  EXPECT_MESSAGE(mistakes_with("[plateau]\nfigure = \"validat.loss\"\n"));
  EXPECT_MESSAGE(mistakes_with("[plateau]\npatience = 3\n"));
}

TEST_F(StopTable, AThresholdIsAShareOrAnAmount) {
  const Pipeline pipeline = with(
      "[stop]\nfigure = \"validate.loss\"\nthreshold = 0.01\n"
      "[plateau]\nfigure = \"validate.loss\"\nthreshold = 2\nthreshold_mode = \"absolute\"\ncooldown = 3\nmin_factor = 0.25\n");
  EXPECT_EQ(pipeline.stop.threshold.least, 0.01);
  EXPECT_TRUE(pipeline.stop.threshold.is_relative);
  EXPECT_EQ(pipeline.plateau.threshold.least, 2);
  EXPECT_FALSE(pipeline.plateau.threshold.is_relative);
  EXPECT_EQ(pipeline.plateau.cooldown, 3U);
  EXPECT_EQ(pipeline.plateau.min_factor, 0.25);
  EXPECT_MESSAGE(mistakes_with("[stop]\nmax_steps = 9\nthreshold = 1\n"));
  EXPECT_MESSAGE(mistakes_with("[plateau]\nfigure = \"validate.loss\"\nthreshold_mode = \"relative\"\n"));
}

TEST_F(StopTable, WithoutAThresholdEveryImprovementCounts) {
  const Pipeline pipeline = with("[stop]\nfigure = \"validate.loss\"\n[plateau]\nfigure = \"validate.loss\"\n");
  EXPECT_EQ(pipeline.stop.threshold.least, 0);
  EXPECT_EQ(pipeline.plateau.threshold.least, 0);
  EXPECT_EQ(pipeline.plateau.cooldown, 0U);
  EXPECT_EQ(pipeline.plateau.min_factor, 0);
}

TEST_F(StopTable, APlateauThatChangesNothingIsAMistake) {
  EXPECT_MESSAGE(mistakes_with("[plateau]\nfigure = \"validate.loss\"\nfactor = 1\n"));
}

TEST_F(StopTable, AFigureOfTheRunsEndComesTooLate) {
  std::string file = train(kValidate);
  file.replace(file.find("\"epoch\""), 7, "\"end\"");
  const std::string late =
      "[validate] has every = \"end\", when nothing is left to end or to slow down; give it every = \"epoch\"";
  EXPECT_EQ(mistakes(file + "[stop]\nfigure = \"validate.loss\"\n"), "p.toml:17:10: 'figure': " + late);
  EXPECT_EQ(mistakes(file + "[plateau]\nfigure = \"validate.loss\"\n"), "p.toml:17:10: 'figure': " + late);
}

TEST_F(StopTable, AnswersMistakesWithTheirPlaces) {
  EXPECT_MESSAGE(mistakes_with("[stop]\npatince = 3\n"));
  EXPECT_MESSAGE(mistakes_with("[stop]\nfigure = \"accuracy\"\n"));
  EXPECT_MESSAGE(mistakes_with("[stop]\nfigure = \"validat.accuracy\"\n"));
  EXPECT_MESSAGE(mistakes_with("[stop]\npatience = 2\n"));
  EXPECT_MESSAGE(mistakes_with("[stop]\n"));
  EXPECT_MESSAGE(mistakes_with("[stop]\nmax_time = \"2 hors\"\n"));
  EXPECT_MESSAGE(mistakes_with("[stp]\nmax_steps = 2\n"));
}

TEST_F(StopTable, BestNamesAFigure) {
  EXPECT_EQ(with("[run]\nbest = \"validate.accuracy\"\n").best->text(), "validate.accuracy");
  EXPECT_MESSAGE(mistakes_with("[run]\nbest = \"holdout.accuracy\"\n"));
}

TEST_F(StopTable, ARunHasOneBest) {
  const std::string run = "[run]\nbest = \"validate.accuracy\"\n";
  EXPECT_EQ(with(run + "[checkpoint]\nbest = \"validate.accuracy\"\n").checkpoint.best->text(), "validate.accuracy");
  EXPECT_MESSAGE(mistakes_with(run + "[checkpoint]\nbest = \"train.loss\"\n"));
}

TEST_F(StopTable, AFigureOfAGraphThatNeverRunsIsNeverSeen) {
  std::string text = train(kValidate) + "[run]\nbest = \"validate.accuracy\"\n";
  text.replace(text.find("\"epoch\""), 7, "\"never\"");
  EXPECT_MESSAGE(mistakes(text));
}

TEST_F(StopTable, AGraphIsTriedBeforeTheFirstEpochUnlessItSaysNo) {
  EXPECT_TRUE(with("").graph("validate")->before);
  std::string text = train(kValidate);
  text.replace(text.find("every"), 0, "before = false\n");
  EXPECT_FALSE(load(text).graph("validate")->before);
  text.replace(text.find("false"), 5, "\"no\"");
  EXPECT_MESSAGE(mistakes(text));
  std::string alone = train();
  alone.replace(alone.find("flow"), 0, "before = false\n");
  EXPECT_MESSAGE(mistakes(alone));
}

}  // namespace
}  // namespace millrace::plan_test
