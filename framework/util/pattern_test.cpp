#include "millrace/util/pattern.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(Matches, TreatsStarAsAnyTextAndQuestionMarkAsOneCharacter) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.bias", "layer1.bn1.bias"));
  EXPECT_TRUE(matches("layer?.*.bias", "layer1.bn1.bias"));
  EXPECT_TRUE(matches("*bn*bias*", "layer1.bn1.bias"));
  EXPECT_TRUE(matches("a*b*c", "abbbxbc"));
  EXPECT_FALSE(matches("*.bias", "layer1.bn1.bias2"));
  EXPECT_FALSE(matches("layer?.bias", "layer10.bias"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("conv1", "conv1.weight"));
}

TEST(LeavesOut, NamesPatternsThatFitNothing) {
  LeavesOut leaves_out({"drafts", "*.bak", "draft"});
  EXPECT_TRUE(leaves_out("drafts"));
  EXPECT_TRUE(leaves_out("cat/1.bak"));
  EXPECT_FALSE(leaves_out("cat/1.jpg"));
  EXPECT_MESSAGE(leaves_out.unused("photos"));
  EXPECT_TRUE(leaves_out("draft"));
  EXPECT_EQ(leaves_out.unused("photos"), "");
}

}  // namespace
}  // namespace millrace
