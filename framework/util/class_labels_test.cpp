#include "millrace/util/class_labels.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<std::int32_t>;

TEST(ClassLabels, AreAllNamesWhereAllAre) {
  const LabelMeaning meaning = meaning_of_labels({"3", "1", "2"}, {"1", "2", "3"});
  EXPECT_EQ(meaning.classes, (Numbers{2, 0, 1}));
  EXPECT_EQ(meaning.doubt, "");
  EXPECT_EQ(meaning_of_labels({"2", "0", "1"}, {"0", "1", "2"}).doubt, "") << "which are positions as well, of the same classes";
}

TEST(ClassLabels, AreAllPositionsWhereNotAllAreNames) {
  const LabelMeaning meaning = meaning_of_labels({"0", "1", "02"}, {"1", "2", "3"});
  EXPECT_EQ(meaning.classes, (Numbers{0, 1, 2}));
  EXPECT_MESSAGE(meaning.doubt);
  EXPECT_EQ(meaning_of_labels({"1", "0"}, {"cat", "dog"}).classes, (Numbers{1, 0}));
  EXPECT_EQ(meaning_of_labels({"1", "0"}, {"cat", "dog"}).doubt, "");
}

TEST(ClassLabels, ThatMayBeBothAreSaid) {
  const LabelMeaning names = meaning_of_labels({"1", "2"}, {"1", "2", "3"});
  EXPECT_EQ(names.classes, (Numbers{0, 1}));
  EXPECT_MESSAGE(names.doubt);
  const LabelMeaning positions = meaning_of_labels({"1", "2"}, {"1", "2", "3"}, LabelsAre::positions_first);
  EXPECT_EQ(positions.classes, (Numbers{1, 2}));
  EXPECT_MESSAGE(positions.doubt);
}

TEST(ClassLabels, ThatFitNeitherWayAreNamed) {
  EXPECT_EQ(meaning_of_labels({"cat", "3"}, {"cat", "dog"}).unknown, 1U);
  const LabelMeaning mixed = meaning_of_labels({"0", "dog"}, {"cat", "dog"});
  EXPECT_EQ(mixed.unknown, 0U);
  EXPECT_MESSAGE(mixed.advice);
  EXPECT_EQ(meaning_of_labels({"0", "1"}, {"cat", "dog"}, LabelsAre::names).unknown, 0U);
}

TEST(ClassLabels, OfDigitsAloneArePositions) {
  EXPECT_EQ(position_of_label("007"), 7);
  for (const char* text : {"", "-1", "+1", "1.0", "1 ", "99999999999", "a"}) EXPECT_FALSE(position_of_label(text)) << text;
}

}  // namespace
}  // namespace millrace
