#include "write_evaluation.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <sstream>

#include "millrace/network.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/plain.h"
#include "testkit/plain_stream.h"

namespace millrace {
namespace {

class WriteEvaluationTest : public testing::Test {
 protected:
  WriteEvaluationTest() : network_(testkit::small_network({2, 2, 1}, 4, 3)) {
    run_.set_folder(folder_.path());
    context_.network = &network_;
    context_.run = &run_;
    context_.classes = {"cat", "dog", "owl"};
  }

  std::unique_ptr<testkit::Harness> made() {
    auto harness = std::make_unique<testkit::Harness>(StageTypeAccess::make<WriteEvaluation>(), testkit::table({}), context_);
    harness->stage().open();
    return harness;
  }

  // Samples of these labels whose outputs name these classes; the predicted class has half of all probability.
  Ref<Predictions> share(const std::vector<std::int32_t>& labels, const std::vector<std::size_t>& predicted) {
    Ref<Predictions> made = make_ref<Predictions>();
    made->count = static_cast<std::uint32_t>(labels.size());
    made->last = true;
    auto& values = values_.emplace_back(3 * labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      made->samples.emplace_back().url = fmt::format("{}.jpg", i);
      made->samples.back().label = labels[i];
      values[3 * i + predicted[i]] = std::log(2.0F);
    }
    made->outputs = {{network_.result(), network_.output(), values.data()}};
    made->ready = make_ref<testkit::Done>();
    return made;
  }
  static std::vector<Error> write(testkit::Harness& harness, const Ref<Predictions>& share) {
    harness.feed(testkit::packet(share, share->step));
    harness.output().wait_until_free();
    return harness.output().errors();
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / ("evaluation/" + name), std::ios::binary).rdbuf();
    return text.str();
  }

  testkit::TestFolder folder_;
  testkit::RecordedRun run_;
  Network network_;
  StageContext context_;
  std::deque<std::vector<float>> values_;
};

TEST_F(WriteEvaluationTest, CountsClassesOverAPass) {
  const auto harness = made();
  const Ref<Predictions> first = share({0, 0, 0, 1}, {0, 0, 1, 1}), second = share({0, 2, 1}, {0, 2, 0});
  first->last = false;
  second->turn = 1;
  second->samples[1].counts = false;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("classes.csv"), "") << "the pass is not whole";
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_EQ(text_of("classes.csv"),
            "class,count,accuracy,precision,f1,iou\r\ncat,4,0.75,0.75,0.75,0.6\r\ndog,2,0.5,0.5,0.5,0.3333333333333333\r\n"
            "owl,0,0,0,0,0\r\n");
  EXPECT_NE(text_of("confusion.csv").find("class,predicted,count,share\r\ncat,cat,3,0.75\r\ncat,dog,1,0.25\r\n"),
            std::string::npos)
      << text_of("confusion.csv");
  EXPECT_NE(text_of("figures.csv").find("figure,value\r\nimages,6\r\naccuracy,0.6666666666666666\r\nmean_accuracy,0.625\r\n"),
            std::string::npos)
      << text_of("figures.csv");
}

TEST_F(WriteEvaluationTest, ComparesConfidenceWithAccuracy) {
  const auto harness = made();
  EXPECT_TRUE(write(*harness, share({0, 0, 0, 0}, {0, 0, 0, 1})).empty());
  EXPECT_NE(text_of("calibration.csv").find("0.466667,0.533333,4,0.5"), std::string::npos) << text_of("calibration.csv");
  std::istringstream lines(text_of("figures.csv"));
  double error = -1;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("calibration_error,")) error = std::stod(line.substr(line.find(',') + 1));
  }
  EXPECT_NEAR(error, 0.25, 1e-7);
}

TEST_F(WriteEvaluationTest, BeginsAgainInTheNextPass) {
  const auto harness = made();
  const Ref<Predictions> first = share({0, 1}, {1, 0}), second = share({2}, {2});
  second->turn = 1;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_NE(text_of("figures.csv").find("images,1\r\naccuracy,1\r\n"), std::string::npos) << text_of("figures.csv");
}

TEST_F(WriteEvaluationTest, NamesASampleWhoseLabelIsNoClass) {
  for (const std::int32_t label : {-1, 3}) {
    const auto harness = made();
    const std::vector<Error> errors = write(*harness, share({0, label}, {0, 0}));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].kind(), ErrorKind::data);
    EXPECT_EQ(errors[0].message(),
              fmt::format("sample '1.jpg' has {}: the network has 3 classes, 0 to 2", label < 0 ? "no label" : "label 3"));
  }
}

TEST_F(WriteEvaluationTest, RefusesMapsAndAFolderWhereNothingCanBeWritten) {
  folder_.write("evaluation", "a file");
  EXPECT_EQ(testkit::error_of([&] { made(); }).kind(), ErrorKind::storage);
  network_.layers.back().output = {3, 2, 2};
  EXPECT_NE(testkit::error_of([&] { made(); }).message().find("the network's output is a map"), std::string::npos);
}

}  // namespace
}  // namespace millrace
