#include "write_boundaries.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "testkit/messages.h"
#include "testkit/predictions.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::uint8_t>;

// tests/reference/README.md
struct ReferenceMaps {
  ReferenceMaps(int the_height, int the_width, int the_classes, int down, int right)
      : height(the_height), width(the_width), classes(the_classes) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        truth.push_back((y + 2 * x) % 37 == 0 ? std::uint8_t{255} : class_at(y, x));
        const int moved = class_at(y + down, x + right) + ((7 * y + 13 * x) % 29 == 0 ? 1 : 0);
        predicted.push_back(static_cast<std::uint8_t>(moved % classes));
      }
    }
  }
  std::uint8_t class_at(int y, int x) const {
    return static_cast<std::uint8_t>(((3 * y + 2 * x) / 11 + y / 7 * (x / 9)) % classes);
  }

  int height, width, classes;
  Bytes truth, predicted;
};

TEST(BoundaryF1, IsThatOfNumPy) {
  const auto file = nlohmann::json::parse(std::ifstream(MILLRACE_SOURCE_DIR "/tests/reference/figures.json"));
  ASSERT_FALSE(file["boundaries"].empty());
  for (const auto& tested : file["boundaries"]) {
    SCOPED_TRACE(tested.dump());
    const auto number = [&tested](const char* name) { return tested[name].get<int>(); };
    const ReferenceMaps maps(number("height"), number("width"), number("classes"), number("down"), number("right"));
    const auto classes = static_cast<std::size_t>(maps.classes);
    const auto figures = boundary_f1({maps.height, maps.width, classes, maps.truth, maps.predicted}, tested["tolerance"]);
    ASSERT_EQ(tested["f1"].size(), classes);
    for (std::size_t c = 0; c < classes; ++c) {
      ASSERT_EQ(figures[c].has_value(), !tested["f1"][c].is_null()) << c;
      if (!figures[c]) continue;
      EXPECT_NEAR(*figures[c], tested["f1"][c].get<double>(), 1e-9) << c;
    }
  }
}

// Two halves of an image of 40 x 30, whose diagonal is 50.
Bytes halves(int edge) {
  Bytes map;
  for (int i = 0; i < 40 * 30; ++i) map.push_back(static_cast<std::uint8_t>(i % 30 < edge ? 0 : 1));
  return map;
}

TEST(BoundaryF1, ForgivesWhatIsWithinTheTolerance) {
  const Bytes truth = halves(15), moved = halves(18);
  const auto figure = [&](const Bytes& predicted, double tolerance) {
    return boundary_f1({40, 30, 3, truth, predicted}, tolerance);
  };
  EXPECT_EQ(figure(truth, 0)[0], 1.0);
  EXPECT_EQ(figure(moved, 0.06)[1], 1.0) << "three pixels";
  EXPECT_LT(*figure(moved, 0.059)[1], 1.0);
  EXPECT_FALSE(figure(moved, 0.06)[2].has_value()) << "neither map has it";
  EXPECT_EQ(figure(Bytes(40 * 30, 0), 0.0075)[1], 0.0) << "it was not found";
}

TEST(BoundaryF1, PixelsOfNoClassCountNowhere) {
  const Bytes truth(40 * 30, 255);
  const auto figures = boundary_f1({40, 30, 2, truth, halves(9)}, 0.0075);
  EXPECT_FALSE(figures[0].has_value());
  EXPECT_FALSE(figures[1].has_value());
}

constexpr int kHeight = 8, kWidth = 6;

class WriteBoundariesTest : public testkit::PredictionsTest {
 protected:
  WriteBoundariesTest() : PredictionsTest({kHeight, kWidth, 1}, {2, kHeight, kWidth}) {
    context_.target.kind = TargetSpec::Kind::classes;
    context_.classes = {"sky", "road"};
  }

  // Images whose upper rows are sky, in truth and in the prediction.
  Ref<Predictions> compared(const std::vector<int>& truth, const std::vector<int>& predicted) {
    std::vector<std::vector<float>> outputs(truth.size());
    auto& targets = targets_.emplace_back();
    for (std::size_t i = 0; i < truth.size(); ++i) {
      for (int c = 0; c < 2; ++c) {
        for (int p = 0; p < kHeight * kWidth; ++p) outputs[i].push_back((p / kWidth < predicted[i]) == (c == 0) ? 1.0F : 0.0F);
      }
      for (int p = 0; p < kHeight * kWidth; ++p) targets.push_back(static_cast<std::uint8_t>(p / kWidth < truth[i] ? 0 : 1));
    }
    Ref<Predictions> made = share(outputs);
    made->batch = testkit::make_batch(made->count, context_.window);
    made->batch->target.kind = TargetSpec::Kind::classes;
    made->batch->targets = targets.data();
    return made;
  }

  std::deque<Bytes> targets_;
};

TEST_F(WriteBoundariesTest, AveragesOverTheImagesOfAPass) {
  CompileRequest request;
  StageTypeAccess::make<WriteBoundaries>().request(testkit::table({}), context_, request);
  EXPECT_TRUE(request.needs_image);
  const auto harness = made<WriteBoundaries>();
  // Found; all road although the upper half is sky: sky has 0, and road's ring of 24 pixels contains the rest of its own.
  const Ref<Predictions> first = compared({4}, {4}), second = compared({4, 8}, {0, 8});
  first->last = false;
  second->turn = 1;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("boundaries/classes.csv"), "") << "the pass is not whole";
  EXPECT_TRUE(write(*harness, second).empty());
  // Road has 16 true boundary pixels (a ring of 4 x 6). 12 lie on the ring of 8 x 6, whose 24 have 12 true ones.
  const double recall = 12.0 / 16, precision = 12.0 / 24, road = 2 * precision * recall / (precision + recall);
  const std::string classes = text_of("boundaries/classes.csv"), figures = text_of("boundaries/figures.csv");
  EXPECT_TRUE(classes.starts_with("class,images,boundary_f1\r\nsky,3,0.666666666666666")) << classes;
  const std::size_t at = classes.find("\r\nroad,2,");
  ASSERT_NE(at, std::string::npos) << classes;
  EXPECT_NEAR(std::stod(classes.substr(at + 9)), (1 + road) / 2, 1e-12);
  EXPECT_TRUE(figures.starts_with("figure,value\r\nimages,3\r\nmean_boundary_f1,")) << figures;
  EXPECT_NEAR(std::stod(figures.substr(figures.rfind(',') + 1)), (1 + road / 2 + 1) / 3, 1e-12);
}

TEST_F(WriteBoundariesTest, WhatIsNoNumberIsNeverPredicted) {
  const Ref<Predictions> one = compared({0}, {0});  // all road
  for (std::size_t p = 0; p < std::size_t{kHeight * kWidth}; ++p) values_.back()[p] = std::numeric_limits<float>::quiet_NaN();
  const auto harness = made<WriteBoundaries>();
  EXPECT_TRUE(write(*harness, one).empty());
  EXPECT_TRUE(text_of("boundaries/classes.csv").starts_with("class,images,boundary_f1\r\nsky,0,0\r\nroad,1,1\r\n"))
      << text_of("boundaries/classes.csv");
}

TEST_F(WriteBoundariesTest, RefusesWhatIsNoMapOfClasses) {
  const auto mistake = [&] { return testkit::error_of([&] { made<WriteBoundaries>(); }).message(); };
  context_.target.scale = 2;
  EXPECT_MESSAGE(mistake());
  context_.target = {};
  EXPECT_MESSAGE(mistake());
  network_.layers.back().output = Shape{3};
  EXPECT_MESSAGE(mistake());
}

}  // namespace
}  // namespace millrace
