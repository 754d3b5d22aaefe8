#include <gtest/gtest.h>

#include <sstream>

#include "evaluation_fixture.h"

namespace millrace {
namespace {

TEST_F(WriteEvaluationTest, CountsClassesOverAPass) {
  const auto harness = made<WriteEvaluation>();
  const Ref<Predictions> first = judged({0, 0, 0, 1}, {0, 0, 1, 1}), second = judged({0, 2, 1}, {0, 2, 0});
  first->last = false;
  second->turn = 1;
  second->samples[1].counts = false;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("evaluation/classes.csv"), "") << "the pass is not whole";
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_EQ(text_of("evaluation/classes.csv"),
            "class,count,accuracy,precision,f1,iou\r\ncat,4,0.75,0.75,0.75,0.6\r\ndog,2,0.5,0.5,0.5,0.3333333333333333\r\n"
            "owl,0,,,,\r\n");
  EXPECT_NE(text_of("evaluation/confusion.csv").find("class,predicted,count,share\r\ncat,cat,3,0.75\r\ncat,dog,1,0.25\r\n"),
            std::string::npos)
      << text_of("evaluation/confusion.csv");
  EXPECT_NE(text_of("evaluation/figures.csv")
                .find("figure,value\r\nimages,6\r\naccuracy,0.6666666666666666\r\nmean_accuracy,0.625\r\n"),
            std::string::npos)
      << text_of("evaluation/figures.csv");
}

TEST_F(WriteEvaluationTest, ReportsItsFiguresByTheNamesOfItsFile) {
  const auto harness = made<WriteEvaluation>();
  EXPECT_TRUE(write(*harness, judged({0, 0, 1, 1}, {0, 1, 1, 1})).empty());
  std::string text = "figure,value\r\nimages,4\r\n";
  std::vector<std::string> names;
  for (const Figure& figure : run_.figures()) {
    text += fmt::format("{},{}\r\n", figure.name, figure.value);
    names.push_back(figure.name);
    EXPECT_EQ(figure.higher_is_better, figure.name != "calibration_error") << figure.name;
  }
  EXPECT_EQ(text_of("evaluation/figures.csv"), text);
  EXPECT_EQ(harness->stage().reported_figures(), names);
  EXPECT_EQ(names, (std::vector<std::string>{"accuracy", "mean_accuracy", "mean_precision", "mean_f1", "calibration_error"}));
}

// A row for each pair took 171 MB for 3,000 classes, and 72 MB of memory.
TEST_F(WriteEvaluationTest, GrowsWithTheImagesWhereClassesAreMany) {
  constexpr std::size_t kClasses = 6000;  // too many for a picture
  network_.layers.back().output = {kClasses};
  context_.samples_per_epoch = 4;
  const auto harness = made<WriteEvaluation>({{"mistakes", Value(0)}, {"predictions", Value(0)}});
  EXPECT_LT(harness->stage().memory_bound(), std::size_t{1} << 20);
  std::vector<std::vector<float>> outputs(2, std::vector<float>(kClasses));
  outputs[0][5999] = outputs[1][7] = 1;
  const Ref<Predictions> made = share(outputs);
  made->samples[0].label = 5999;
  made->samples[1].label = 5;
  EXPECT_TRUE(write(*harness, made).empty());
  EXPECT_EQ(text_of("evaluation/confusion.csv"), "class,predicted,count,share\r\n5,7,1,1\r\n5999,5999,1,1\r\n");
}

TEST_F(WriteEvaluationTest, ComparesConfidenceWithAccuracy) {
  const auto harness = made<WriteEvaluation>();
  EXPECT_TRUE(write(*harness, judged({0, 0, 0, 0}, {0, 0, 0, 1})).empty());
  EXPECT_NE(text_of("evaluation/calibration.csv").find("0.466667,0.533333,4,0.5"), std::string::npos)
      << text_of("evaluation/calibration.csv");
  std::istringstream lines(text_of("evaluation/figures.csv"));
  double error = -1;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("calibration_error,")) error = std::stod(line.substr(line.find(',') + 1));
  }
  EXPECT_NEAR(error, 0.25, 1e-7);
}

TEST_F(WriteEvaluationTest, BeginsAgainInTheNextPass) {
  const auto harness = made<WriteEvaluation>();
  const Ref<Predictions> first = judged({0, 1}, {1, 0}), second = judged({2}, {2});
  second->turn = 1;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_NE(text_of("evaluation/figures.csv").find("images,1\r\naccuracy,1\r\n"), std::string::npos)
      << text_of("evaluation/figures.csv");
}

TEST_F(WriteEvaluationTest, CountsAResultThatIsNotFiniteAsAMistake) {
  const auto harness = made<WriteEvaluation>();
  EXPECT_TRUE(write(*harness, judged_by({0, 0, 1, 1}, {{NAN, NAN, NAN}, {2, 0, 0}, {0, 2, 0}, {0, HUGE_VALF, 0}})).empty());
  EXPECT_NE(text_of("evaluation/figures.csv").find("images,4\r\nnot_finite,2\r\naccuracy,0.5\r\n"), std::string::npos)
      << text_of("evaluation/figures.csv");
}

TEST_F(WriteEvaluationTest, WarnsOnceOfPredictionsThatAreAllOfOneClass) {
  using Pass = std::pair<std::vector<std::int32_t>, std::vector<std::size_t>>;
  const Pass one = {{0, 1, 1}, {1, 1, 1}}, two = {{0, 1, 1}, {1, 1, 0}}, few = {{0, 1}, {1, 1}}, same = {{1, 1, 1}, {1, 1, 1}};
  const auto warnings = [&](bool trains, const std::vector<Pass>& passes) {
    const std::size_t before = run_.warnings().size();
    context_.is_during_training = trains;
    const auto harness = made<WriteEvaluation>();
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      const Ref<Predictions> made = judged(passes[pass].first, passes[pass].second);
      made->turn = pass;
      EXPECT_TRUE(write(*harness, made).empty());
    }
    return run_.warnings().size() - before;
  };
  EXPECT_EQ(warnings(false, {one, one}), 1U);
  EXPECT_NE(run_.warnings().back().find("all 3 images are predicted as 'dog', and they are of 2 classes"), std::string::npos);
  EXPECT_EQ(warnings(false, {two, few, same}), 0U);
  EXPECT_EQ(warnings(true, {one, one, one}), 0U) << "the run does that";
}

TEST_F(WriteEvaluationTest, NamesASampleWhoseLabelIsNoClass) {
  for (const std::int32_t label : {-1, 3}) {
    const auto harness = made<WriteEvaluation>();
    const std::vector<Error> errors = write(*harness, judged({0, label}, {0, 0}));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].kind(), ErrorKind::data);
    EXPECT_EQ(errors[0].message(),
              fmt::format("sample 'photos/1.jpg' has {}: the network has 3 classes, 0 to 2", label < 0 ? "no label" : "label 3"));
  }
}

}  // namespace
}  // namespace millrace
