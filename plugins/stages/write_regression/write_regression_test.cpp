#include "write_regression.h"

#include <gtest/gtest.h>
#include <texts_fixture.h>

#include <filesystem>
#include <limits>

#include "compared_numbers_fixture.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

class WriteRegressionTest : public ComparedNumbersTest {
 protected:
  WriteRegressionTest() : ComparedNumbersTest(2) {}
};

TEST_F(WriteRegressionTest, SaysHowFarEachNumberIsFromItsTarget) {
  const auto harness = made<WriteRegression>({columns({"age", "height, cm"})});
  const auto first = predicted({{1, 10}, {9, 9}}, {2, 10, 50, 50}), second = predicted({{5, 20}}, {3, 20});
  first->last = false;
  first->samples[1].counts = false;
  second->turn = 1;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("evaluation/numbers.csv"), "") << "the pass is not whole";
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_EQ(
      text_of("evaluation/numbers.csv"),
      "path,age,age_predicted,\"height, cm\",\"height, cm_predicted\"\r\nphotos/0.jpg,2,1,10,10\r\nphotos/0.jpg,3,5,20,20\r\n");
  EXPECT_EQ(text_of("evaluation/figures.csv"),
            "number,count,rmse,mae,r2\r\nage,2,1.5811388300841898,1.5,-9\r\n\"height, cm\",2,0,0,1\r\n");
  std::string reported, names;
  for (const Figure& figure : run_.figures())
    reported += fmt::format("{}={:.4g}{} ", figure.name, figure.value, figure.higher_is_better ? "+" : "");
  EXPECT_EQ(reported,
            "rmse.age=1.581 rmse.height, cm=0 mean_rmse=0.7906 mae.age=1.5 mae.height, cm=0 mean_mae=0.75 r2.age=-9+ r2.height, "
            "cm=1+ mean_r2=-4+ ");
  for (const Figure& figure : run_.figures()) names += figure.name + " ";
  for (const std::string& name : harness->stage().reported_figures())
    EXPECT_NE(names.find(name + " "), std::string::npos) << name;
  for (const char* name : {"scatter.png", "predictions.png", "mistakes.png"}) {
    EXPECT_TRUE(text_of(fmt::format("evaluation/{}", name)).starts_with("\x89PNG")) << name;
  }
  EXPECT_NE(text_of("evaluation/scatter.svg").find("<svg"), std::string::npos);
}

TEST_F(WriteRegressionTest, NoNumberHasTheNameOfAnotherColumn) {
  const auto harness = made<WriteRegression>({columns({"path", "path_predicted"})});
  EXPECT_TRUE(write(*harness, predicted({{1, 10}}, {2, 10})).empty());
  EXPECT_TRUE(
      text_of("evaluation/numbers.csv").starts_with("path,path_2,path_predicted,path_predicted_2,path_predicted_predicted\r\n"))
      << text_of("evaluation/numbers.csv");
}

TEST_F(WriteRegressionTest, CountsWhatIsNoNumberAndPutsItFirst) {
  const auto harness = made<WriteRegression>({{"mistakes", Value(1)}});
  EXPECT_TRUE(write(*harness, predicted({{0, 0}, {std::numeric_limits<float>::quiet_NaN(), 1}}, {1, 1, 1, 1})).empty());
  EXPECT_NE(text_of("evaluation/numbers.csv").find("photos/1.jpg,1,nan,1,1"), std::string::npos);
  EXPECT_EQ(text_of("evaluation/figures.csv"),
            "number,count,rmse,mae,r2,not_finite\r\n0,1,1,1,,1\r\n1,2,0.7071067811865476,0.5,,0\r\n");
  EXPECT_TRUE(text_of("evaluation/scatter.png").starts_with("\x89PNG"));
}

TEST_F(WriteRegressionTest, LeavesOutR2OfTargetsThatAreAllTheSame) {
  const auto harness = made<WriteRegression>();
  EXPECT_TRUE(write(*harness, predicted({{1, 0.5F}, {1, 0}, {1, 0}}, {0.1F, 0, 0.1F, 1, 0.1F, 0})).empty());
  const std::string figures = text_of("evaluation/figures.csv");
  EXPECT_NE(figures.find("\r\n0,3,0.8999999985098839,0.8999999985098839,\r\n1,3,"), std::string::npos) << figures;
  EXPECT_NE(text_of("evaluation/scatter.svg").find("<svg"), std::string::npos);
}

TEST_F(WriteRegressionTest, RefusesNumbersThatDoNotMatch) {
  EXPECT_MESSAGE(testkit::error_of([&] { made<WriteRegression>({columns({"age"})}); }).message());
  const auto harness = made<WriteRegression>();
  const std::vector<Error> errors = write(*harness, predicted({{0, 0}}, {1}));
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_MESSAGE(errors[0].message());
}

TEST_F(WriteRegressionTest, WritesNothingWhereTheRunHasNoFolder) {
  run_.set_folder({});
  const auto harness = made<WriteRegression>();
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_NE(run_.warnings()[0].find("it writes nothing, since the run has no folder"), std::string::npos) << run_.warnings()[0];
  EXPECT_TRUE(write(*harness, predicted({{0, 0}}, {1, 1})).empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "evaluation"));
}

// More numbers than panels, and more samples than dots.
TEST(Scatter, HasTextsThatDoNotOverlap) {
  std::vector<drawing::Point> pairs;
  for (int i = 0; i < 5000; ++i) pairs.push_back({i * 1e-3, 5 - i * 1e-3});
  for (const std::size_t numbers : {1, 3, 20}) {
    SCOPED_TRACE(numbers);
    drawing::expect_apart(scatter(drawing::extreme_names(numbers), std::vector<std::vector<drawing::Point>>(numbers, pairs),
                                  "5000 images of validate"));
  }
}

}  // namespace
}  // namespace millrace
