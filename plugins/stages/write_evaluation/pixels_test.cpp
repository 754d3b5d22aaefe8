// Maps of classes and label images.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <deque>
#include <filesystem>
#include <limits>

#include "testkit/messages.h"
#include "testkit/predictions.h"
#include "write_evaluation.h"

namespace millrace {
namespace {

constexpr std::uint8_t kNoClass = 255;

// Images of 2 x 3 pixels and two classes.
class EvaluationOfPixels : public testkit::PredictionsTest {
 protected:
  EvaluationOfPixels() : PredictionsTest({2, 3, 1}, Shape{2, 2, 3}) {
    context_.target.kind = TargetSpec::Kind::classes;
    context_.classes = {"sky", "road"};
  }

  // The predicted class of each pixel has three times the probability of the other.
  Ref<Predictions> judged(const std::vector<std::vector<std::uint8_t>>& labels,
                          const std::vector<std::vector<std::uint8_t>>& predicted) {
    std::vector<std::vector<float>> outputs(labels.size());
    auto& targets = targets_.emplace_back();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      for (std::uint8_t c = 0; c < 2; ++c) {
        for (const std::uint8_t of : predicted[i]) outputs[i].push_back(of == c ? std::log(3.0F) : 0.0F);
      }
      targets.insert(targets.end(), labels[i].begin(), labels[i].end());
    }
    return with_targets(share(outputs), targets);
  }
  Ref<Predictions> with_targets(Ref<Predictions> made, std::vector<std::uint8_t>& targets) const {
    made->batch = testkit::make_batch(made->count, context_.window);
    made->batch->target.kind = TargetSpec::Kind::classes;
    made->batch->targets = targets.data();
    return made;
  }

  std::deque<std::vector<std::uint8_t>> targets_;
};

TEST_F(EvaluationOfPixels, CountsPixelsThatHaveAClass) {
  const auto harness = made<WriteEvaluation>();
  const auto first = judged({{0, 0, 0, 1, 1, kNoClass}}, {{0, 0, 1, 1, 1, 0}});
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("evaluation/classes.csv"),
            "class,count,accuracy,precision,f1,iou\r\nsky,3,0.6666666666666666,1,0.8,0.6666666666666666\r\n"
            "road,2,1,0.6666666666666666,0.8,0.6666666666666666\r\n");
  const std::string figures = text_of("evaluation/figures.csv");
  EXPECT_TRUE(figures.starts_with("figure,value\r\nimages,1\r\npixels,5\r\naccuracy,0.8\r\n")) << figures;
  EXPECT_NE(figures.find("mean_iou,0.6666666666666666\r\n"), std::string::npos) << figures;
  const std::size_t at = figures.find("calibration_error,");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NEAR(std::stod(figures.substr(at + 18)), 0.05, 1e-7) << "right: 0.8, confidence: 0.75";
  EXPECT_NE(text_of("evaluation/confusion.csv").find("sky,road,1,0.3333333333333333\r\n"), std::string::npos);
  for (const char* name : {"confusion.png", "classes.png", "predictions.png"}) {
    EXPECT_TRUE(text_of(fmt::format("evaluation/{}", name)).starts_with("\x89PNG")) << name;
  }
  EXPECT_TRUE(text_of("evaluation/confusion.svg").starts_with("<?xml"));
}

TEST_F(EvaluationOfPixels, PutsTheImageOfTheHighestLossFirst) {
  const auto harness = made<WriteEvaluation>({{"mistakes", Value(2)}});
  const std::vector<std::uint8_t> all_sky(6, 0), none(6, kNoClass);
  const auto images =
      judged({all_sky, all_sky, none, all_sky}, {{0, 0, 0, 0, 0, 0}, {1, 1, 1, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1}});
  EXPECT_TRUE(write(*harness, images).empty());
  const std::string worst = text_of("evaluation/worst.csv");
  EXPECT_TRUE(worst.starts_with("path,index,pixels,accuracy,loss\r\nphotos/1.jpg,41,6,0.5,")) << worst;
  EXPECT_NE(worst.find("\r\nphotos/3.jpg,43,6,0.8333333333333334,"), std::string::npos) << worst;
  EXPECT_EQ(std::count(worst.begin(), worst.end(), '\n'), 3) << worst;
  EXPECT_NEAR(std::stod(worst.substr(worst.find("0.5,") + 4)), (3 * std::log(4.0) + 3 * std::log(4.0 / 3)) / 6, 1e-6);
  EXPECT_TRUE(text_of("evaluation/worst.png").starts_with("\x89PNG"));
  EXPECT_EQ(text_of("evaluation/mistakes.csv"), "");
}

// Same as write_masks.
TEST_F(EvaluationOfPixels, WhatIsNoNumberIsNeverPredicted) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> outputs(12, 0.5F);
  std::fill_n(outputs.begin(), 6, none);
  auto& targets = targets_.emplace_back(std::vector<std::uint8_t>(6, 1));
  const auto harness = made<WriteEvaluation>();
  EXPECT_TRUE(write(*harness, with_targets(share({outputs}), targets)).empty());
  EXPECT_NE(text_of("evaluation/figures.csv").find("accuracy,1\r\n"), std::string::npos) << text_of("evaluation/figures.csv");
}

TEST_F(EvaluationOfPixels, NeedsLabelImagesOfTheOutputsSize) {
  CompileRequest request;
  StageTypeAccess::make<WriteEvaluation>().request(testkit::table({{"mistakes", Value(0)}}), context_, request);
  EXPECT_TRUE(request.needs_image) << "label images lie beside the images";
  const auto mistake = [&] { return testkit::error_of([&] { made<WriteEvaluation>(); }).message(); };
  context_.target.scale = 2;
  EXPECT_MESSAGE(mistake());
  context_.target = {};
  EXPECT_MESSAGE(mistake());
}

// A limit on file sizes simulates a full disk: the pictures do not fit.
TEST_F(EvaluationOfPixels, AFullDiskLeavesTheFilesOfThePassBefore) {
  const auto harness = made<WriteEvaluation>();
  EXPECT_TRUE(write(*harness, judged({{0, 0, 0, 0, 0, 0}}, {{0, 0, 0, 0, 0, 0}})).empty());
  const std::string before = text_of("evaluation/figures.csv");
  const auto second = judged({{0, 0, 0, 0, 0, 0}}, {{1, 1, 1, 1, 1, 1}});
  second->turn = 1;
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{700, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<Error> errors = write(*harness, second);
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::storage);
  EXPECT_NE(before, "");
  EXPECT_EQ(text_of("evaluation/figures.csv"), before);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "evaluation")) {
    EXPECT_EQ(entry.path().string().find(".new-"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace millrace
