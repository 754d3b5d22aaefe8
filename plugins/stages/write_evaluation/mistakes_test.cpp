#include "mistakes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "../write_images/pictures_fixture.h"
#include "evaluation_fixture.h"

namespace millrace {
namespace {

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

TEST(Verdict, IsTheSoftmaxOfTheOutputs) {
  const std::vector<float> outputs = {1, 3, 0};
  const Verdict verdict = Verdict::of(outputs, 0, false);
  const double sum = std::exp(1.0) + std::exp(3.0) + 1;
  EXPECT_EQ(verdict.label, 0U);
  EXPECT_EQ(verdict.predicted, 1U);
  EXPECT_NEAR(verdict.confidence, std::exp(3.0) / sum, 1e-12);
  EXPECT_NEAR(verdict.loss, -std::log(std::exp(1.0) / sum), 1e-12);
}

TEST(Verdict, TakesProbabilitiesAsTheyAre) {
  const std::vector<float> outputs = {0.25F, 0.75F, 0};
  EXPECT_NEAR(Verdict::of(outputs, 0, true).loss, std::log(4.0), 1e-12);
  EXPECT_EQ(Verdict::of(outputs, 0, true).confidence, 0.75);
  EXPECT_EQ(Verdict::of(outputs, 2, true).loss, std::numeric_limits<double>::infinity());
}

TEST(Verdict, OfNoNumbersIsTheWorst) {
  const std::vector<float> outputs = {kNoNumber, 1, 2};
  const Verdict verdict = Verdict::of(outputs, 2, false);
  EXPECT_EQ(verdict.confidence, 0);
  EXPECT_EQ(verdict.loss, std::numeric_limits<double>::infinity());
}

TEST(Verdict, PredictsTheLargestNumberBehindOneThatIsNone) {
  const std::vector<float> outputs = {kNoNumber, 1, 2};
  EXPECT_EQ(Verdict::of(outputs, 0, false).predicted, 2U) << "as write_classes has it";
}

// Pixels of a few thousand photographs: their sums once overflowed 64 bits.
TEST(Calibration, HasRoomForThePixelsOfALargeSet) {
  Calibration calibration;
  for (int i = 0; i < 4; ++i) calibration.add(0.75, i > 0);
  for (int doubled = 2; doubled < 36; ++doubled) calibration.add(Calibration::Bins(calibration.bins()));
  EXPECT_NEAR(calibration.expected_error(), 0, 1e-6);
}

class MistakesTest : public WriteEvaluationTest {
 protected:
  // The rows of mistakes.csv without the row of names.
  std::vector<std::string> rows() const {
    std::istringstream lines(text_of("evaluation/mistakes.csv"));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) found.push_back(line.substr(0, line.find('\r')));
    EXPECT_FALSE(found.empty());
    if (!found.empty()) found.erase(found.begin());
    return found;
  }
  // The grey levels of the images on the sheet, 256 x 256 pixels each, in order.
  std::vector<int> images() const {
    constexpr int kSide = 256, kFirstTop = 106, kFirstLeft = 40, kDown = 410, kRight = 288;
    const testkit::Picture sheet = testkit::read_png(folder_ / "evaluation/mistakes.png");
    const auto at = [&](int y, int x) {
      const std::uint8_t* pixel = sheet.pixels.data() + 3 * static_cast<std::ptrdiff_t>(y * sheet.width + x);
      return pixel[0] == pixel[1] && pixel[1] == pixel[2] ? int{pixel[0]} : -1;
    };
    std::vector<int> levels;
    for (int top = kFirstTop; top + kSide <= sheet.height; top += kDown) {
      for (int left = kFirstLeft; left + kSide <= sheet.width; left += kRight) {
        std::set<int> found;
        for (int y = 0; y < kSide; ++y) {
          for (int x = 0; x < kSide; ++x) found.insert(at(top + y, left + x));
        }
        EXPECT_EQ(found.size(), 1U) << "one image, and nothing over it";
        if (*found.begin() != 255) levels.push_back(*found.begin());
      }
    }
    return levels;
  }
};

// The logit by which owl is preferred to the label; a larger one means a higher loss.
std::vector<std::vector<float>> owls(const std::vector<float>& logits) {
  std::vector<std::vector<float>> outputs;
  for (const float logit : logits) outputs.push_back({0, 0, logit});
  return outputs;
}

TEST_F(MistakesTest, AreThoseOfTheHighestLossInItsOrder) {
  const auto harness = made<WriteEvaluation>({{"mistakes", Value(std::int64_t{3})}});
  const Ref<Predictions> first = judged_by({0, 1, 2, 0}, owls({1, 4, 9, 2})), second = judged_by({1, 1}, owls({4, 3}));
  first->last = false;
  second->turn = 1;
  second->samples[1].url = "shards/3.tar";
  second->samples[1].member = "a/7.png";
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("evaluation/mistakes.csv"), "") << "the pass is not whole";
  EXPECT_TRUE(write(*harness, second).empty());
  const std::vector<std::string> found = rows();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found[0].starts_with("photos/1.jpg,41,dog,owl,0.96466")) << found[0];
  EXPECT_TRUE(found[1].starts_with("photos/0.jpg,40,dog,owl,0.96466")) << "as high, and later: " << found[1];
  EXPECT_TRUE(found[2].starts_with("shards/3.tar: a/7.png,41,dog,owl,0.90944")) << found[2];
  EXPECT_EQ(images(), (std::vector<int>{20, 10, 20})) << "the levels of images 1, 0 and 1 of their shares";
}

TEST_F(MistakesTest, LeaveOutWhatWasSkippedAndBeginAgainInTheNextPass) {
  const auto harness = made<WriteEvaluation>();
  const Ref<Predictions> first = judged_by({0, 0, 0}, owls({1, 9, 2})), second = judged_by({0}, owls({3}));
  first->samples[1].counts = false;  // a broken image
  second->turn = 1;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(images(), (std::vector<int>{30, 10}));
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_EQ(rows().size(), 1U);
  EXPECT_EQ(images(), (std::vector<int>{10}));
}

TEST_F(MistakesTest, ShowTheBatchAsTheNetworkSawIt) {
  const auto harness = made<WriteEvaluation>();
  const Ref<Predictions> one = judged_by({0, 0}, owls({1, 2}));
  // The replica's share begins in the batch's second slot, whose image was moved out of sight.
  one->batch = testkit::make_batch(3, context_.window);
  one->first_slot = 1;
  one->batch->records[2].x = 5;
  for (std::uint8_t& level : one->batch->records[2].fill) level = 77;
  EXPECT_TRUE(write(*harness, one).empty());
  EXPECT_EQ(images(), (std::vector<int>{77, 0}));
}

TEST_F(MistakesTest, AnOutputOfNoNumbersComesFirst) {
  const auto harness = made<WriteEvaluation>();
  EXPECT_TRUE(write(*harness, judged_by({1, 1}, {{0, 0, 50}, {kNoNumber, kNoNumber, kNoNumber}})).empty());
  const std::vector<std::string> found = rows();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], "photos/1.jpg,41,dog,cat,0,inf");
  EXPECT_TRUE(found[1].starts_with("photos/0.jpg,40,dog,owl,1,50")) << found[1];
}

TEST_F(MistakesTest, AreNoneWhereAllIsRight) {
  const auto harness = made<WriteEvaluation>();
  EXPECT_TRUE(write(*harness, judged({0, 1, 2}, {0, 1, 2})).empty());
  EXPECT_TRUE(rows().empty());
  EXPECT_GT(testkit::read_png(folder_ / "evaluation/mistakes.png").width, 0);
}

TEST_F(MistakesTest, AskForImagesUnlessThereIsToBeNoSheet) {
  const Value none(std::int64_t{0});
  for (const std::int64_t mistakes : {0, 1}) {
    const Value keys = testkit::table({{"mistakes", Value(mistakes)}, {"predictions", none}});
    CompileRequest request;
    StageTypeAccess::make<WriteEvaluation>().request(keys, context_, request);
    EXPECT_EQ(request.needs_image, mistakes > 0);
  }
  const auto harness = made<WriteEvaluation>({{"mistakes", none}, {"predictions", none}});
  const Ref<Predictions> one = judged({0}, {1});
  one->batch = nullptr;
  EXPECT_TRUE(write(*harness, one).empty());
  for (const char* name : {"mistakes.png", "predictions.png"})
    EXPECT_FALSE(std::filesystem::exists(folder_ / ("evaluation/" + std::string(name))));
  EXPECT_NE(text_of("evaluation/confusion.png"), "");
}

}  // namespace
}  // namespace millrace
