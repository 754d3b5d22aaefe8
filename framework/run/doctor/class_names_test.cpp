#include <fmt/format.h>
#include <gtest/gtest.h>

#include "run/doctor/doctor.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;

std::string said(const Names& classes) {
  std::string all;
  for (const std::string& text : doubts_of_names(classes)) all += text + "\n";
  return all;
}
bool says(const Names& classes, std::string_view part) { return said(classes).find(part) != std::string::npos; }

TEST(DoubtfulNames, AreNumbersInTwoWays) {
  EXPECT_TRUE(says({"3", "3.0"}, "'3' and '3.0' are two classes, but one number"));
  EXPECT_TRUE(says({"01", "1"}, "'01' and '1' are two classes"));
  EXPECT_TRUE(says({"1,5", "1.5", "2"}, "'1,5' and '1.5' are two classes"));
  EXPECT_TRUE(says({"0", "1", "true"}, "'1' and 'true' are two classes"));
  for (const Names& classes : {Names{"3.0", "4.0"}, {"v3", "v3.0"}, {"07", "08"}, {"-1", "1"}}) EXPECT_EQ(said(classes), "");
}

TEST(DoubtfulNames, AreSeveralLabels) {
  const char* const kSeveral = "are labels too, in other orders or numbers: they are probably several labels per image";
  for (const Names& classes : {Names{"clear primary", "primary clear", "haze"},
                               {"16", "0", "16|0"},
                               {"cat", "dog", "cat, dog"},
                               {"scratch", "dent", "dent_scratch"},
                               {"['a', 'b']", "['a']", "['b']"},
                               {"clear road", "clear water", "clear road water", "haze road", "haze water", "haze road water"}})
    EXPECT_TRUE(says(classes, kSeveral)) << classes.front() << '\n' << said(classes);
  for (const Names& classes : {Names{"golden retriever", "labrador retriever", "beagle"},
                               {"car", "police car", "race car", "sports car"},
                               {"great white shark", "white shark", "hammerhead"},
                               {"maple_tree", "oak_tree", "pine_tree"},
                               {"0-1", "1-0", "0", "1"},
                               {"hot dog", "ice cream", "ice", "pizza", "fish tank", "tank top", "red wine"}})
    EXPECT_EQ(said(classes), "") << classes.front();
}

// Each part was left out in turn: minutes for a column of texts in place of labels.
TEST(DoubtfulNames, AreNoLongTexts) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += fmt::format("word{} ", i);
  EXPECT_EQ(said({text, text + "more", "word1", "word2"}), "");
}

TEST(DoubtfulNames, AreNamesBesideTheirPositions) {
  EXPECT_TRUE(says({"0", "1", "cat", "dog"}, "some classes are names, such as 'dog', and some are numbers from 0 to 1"));
  for (const Names& classes : {Names{"0", "1", "a", "b", "c"}, {"10", "2", "3", "ace", "king", "queen"}, {"0", "1", "plus"}})
    EXPECT_EQ(said(classes), "") << classes.back();
}

TEST(DoubtfulNames, AreDates) {
  EXPECT_TRUE(says({"0", "2-Jan", "5-9"}, "class '2-Jan' is a date as spreadsheets make it"));
  EXPECT_TRUE(says({"2026-01-02", "2026-02-01", "2026-03-04"}, "all 3 classes are dates, such as '2026-01-02'"));
  EXPECT_EQ(said({"type-a", "may-fly", "12-bore"}), "");
}

}  // namespace
}  // namespace millrace
