#include "write_label_scores.h"

#include <gtest/gtest.h>

#include <limits>

#include "compared_numbers_fixture.h"

namespace millrace {
namespace {

class WriteLabelScoresTest : public ComparedNumbersTest {
 protected:
  WriteLabelScoresTest() : ComparedNumbersTest(3) {}

  // Four images of two labels that occur and one that does not: an output of 2 has the probability 0.88.
  Ref<Predictions> four() {
    return predicted({{2, -1, -3}, {-1, 3, -3}, {1, -1, -3}, {-2, 1, 2}}, {1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0});
  }
};

TEST_F(WriteLabelScoresTest, SaysHowWellEachLabelIsFound) {
  const auto harness = made<WriteLabelScores>({columns({"cat", "in, doors", "owl"})});
  const auto first = four(), second = predicted({{9, 9, 9}, {-2, -2, -2}}, {0, 0, 0, 0, 0, 0});
  first->last = false;
  second->turn = 1;
  second->samples[0].counts = false;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("evaluation/labels.csv"), "") << "the pass is not whole";
  EXPECT_TRUE(write(*harness, second).empty());
  // "in, doors" by falling score: 3 has it, 1 has it, -1 twice of which one has it, -2: 2/3 + 1/3 * 3/4.
  EXPECT_EQ(text_of("evaluation/labels.csv"),
            "label,images,having,predicted,precision,recall,f1,average_precision\r\ncat,5,2,2,1,1,1,1\r\n"
            "\"in, doors\",5,3,2,1,0.6666666666666666,0.8,0.9166666666666666\r\nowl,5,0,1,0,,0,\r\n");
  EXPECT_EQ(text_of("evaluation/figures.csv"),
            "figure,value\r\nimages,5\r\naccuracy,0.8666666666666667\r\nexact_match,0.6\r\nmean_f1,0.9\r\n"
            "mean_average_precision,0.9583333333333333\r\n");
  EXPECT_TRUE(text_of("evaluation/scores.csv")
                  .starts_with("path,cat,cat_probability,\"in, doors\",\"in, doors_probability\",owl,owl_probability\r\n"
                               "photos/0.jpg,1,0.8807970779778823,1,0.2689414213699951,0,0.04742587317756678\r\n"))
      << text_of("evaluation/scores.csv");
  for (const char* name : {"labels.png", "predictions.png", "mistakes.png"}) {
    EXPECT_TRUE(text_of(fmt::format("evaluation/{}", name)).starts_with("\x89PNG")) << name;
  }
}

TEST_F(WriteLabelScoresTest, PredictsAboveItsThreshold) {
  const auto harness = made<WriteLabelScores>({{"threshold", Value(0.9)}});
  EXPECT_TRUE(write(*harness, four()).empty());
  EXPECT_NE(text_of("evaluation/labels.csv").find("\r\n0,4,2,0,,0,0,1\r\n1,4,3,1,1,"), std::string::npos)
      << text_of("evaluation/labels.csv");
}

TEST_F(WriteLabelScoresTest, CountsAResultThatIsNotFiniteAsAMistake) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const auto harness = made<WriteLabelScores>();
  EXPECT_TRUE(write(*harness, predicted({{none, none, none}, {1, -1, 1}}, {1, 0, 0, 1, 0, 1})).empty());
  EXPECT_NE(text_of("evaluation/figures.csv").find("images,2\r\nnot_finite,1\r\naccuracy,0.5\r\nexact_match,0.5\r\n"),
            std::string::npos)
      << text_of("evaluation/figures.csv");
  EXPECT_NE(text_of("evaluation/labels.csv").find("\r\n0,2,2,1,1,0.5,0.6666666666666666,1\r\n"), std::string::npos)
      << text_of("evaluation/labels.csv");
}

}  // namespace
}  // namespace millrace
