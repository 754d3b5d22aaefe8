#include "run/card.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Card, TakesNamesForNothingButText) {
  EXPECT_EQ(markdown_text("a|b\n# [x](javascript:1) <img>"), "a\\|b\\\\x0a\\# \\[x\\]\\(javascript\\:1\\) \\<img\\>");
  EXPECT_EQ(code_block("toml", "name = \"```\""), "````toml\nname = \"```\"\n````\n");
}

}  // namespace
}  // namespace millrace
