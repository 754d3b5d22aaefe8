#include "write_regression.h"

#include <gtest/gtest.h>
#include <texts_fixture.h>

#include <filesystem>
#include <limits>

#include "scatter.h"
#include "testkit/predictions.h"

namespace millrace {
namespace {

class WriteRegressionTest : public testkit::PredictionsTest {
 protected:
  WriteRegressionTest() : PredictionsTest({2, 2, 1}, Shape{2}) {}

  Ref<Predictions> predicted(const std::vector<std::vector<float>>& outputs, std::vector<float> targets) {
    Ref<Predictions> made = share(outputs);
    made->batch = testkit::make_batch(made->count, context_.window);
    made->batch->numbers_per_sample = static_cast<std::uint32_t>(targets.size() / outputs.size());
    made->batch->numbers = targets_.emplace_back(std::move(targets)).data();
    return made;
  }

  static std::pair<const char*, Value> columns() {
    return {"columns", Value(std::vector<Value>{Value(std::string("age")), Value(std::string("height, cm"))})};
  }

  std::deque<std::vector<float>> targets_;
};

TEST_F(WriteRegressionTest, SaysHowFarEachNumberIsFromItsTarget) {
  const auto harness = made<WriteRegression>({columns()});
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
  for (const char* name : {"scatter.png", "predictions.png", "mistakes.png"}) {
    EXPECT_TRUE(text_of(fmt::format("evaluation/{}", name)).starts_with("\x89PNG")) << name;
  }
  EXPECT_NE(text_of("evaluation/scatter.svg").find("<svg"), std::string::npos);
}

TEST_F(WriteRegressionTest, CountsWhatIsNoNumberAndPutsItFirst) {
  const auto harness = made<WriteRegression>({{"mistakes", Value(1)}});
  EXPECT_TRUE(write(*harness, predicted({{0, 0}, {std::numeric_limits<float>::quiet_NaN(), 1}}, {1, 1, 1, 1})).empty());
  EXPECT_NE(text_of("evaluation/numbers.csv").find("photos/1.jpg,1,nan,1,1"), std::string::npos);
  EXPECT_EQ(text_of("evaluation/figures.csv"),
            "number,count,rmse,mae,r2,not_finite\r\n0,1,1,1,0,1\r\n1,2,0.7071067811865476,0.5,0,0\r\n");
  EXPECT_TRUE(text_of("evaluation/scatter.png").starts_with("\x89PNG"));
}

TEST_F(WriteRegressionTest, RefusesNumbersThatDoNotMatch) {
  EXPECT_EQ(testkit::error_of([&] {
              made<WriteRegression>({{"columns", Value(std::vector<Value>{Value(std::string("age"))})}});
            }).message(),
            "columns: there are 1 names, and the network predicts 2 numbers");
  const auto harness = made<WriteRegression>();
  const std::vector<Error> errors = write(*harness, predicted({{0, 0}}, {1}));
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].message(), "the network predicts 2 numbers, and a sample has 1: they must match");
}

TEST_F(WriteRegressionTest, WritesNothingWhereTheRunHasNoFolder) {
  run_.set_folder({});
  const auto harness = made<WriteRegression>();
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_NE(run_.warnings()[0].find("it writes nothing, as the run has no folder"), std::string::npos) << run_.warnings()[0];
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
