#include "fields.h"

#include <gtest/gtest.h>

namespace millrace::web {
namespace {

TEST(ContentRanges, AreReadStrictly) {
  const auto range = parse_content_range("bytes 5-9/100");
  ASSERT_TRUE(range);
  EXPECT_TRUE(range->inside);
  EXPECT_EQ(range->first, 5U);
  EXPECT_EQ(range->last, 9U);
  EXPECT_EQ(range->total, 100U);
  EXPECT_FALSE(parse_content_range("bytes */7")->inside);
  for (const char* text : {"", "bytes", "bytes 5-9", "bytes 9-5/100", "bytes 5-100/100", "bytes 5-9/*", "bytes -9/10",
                           "items 5-9/100", "bytes 5-9/99999999999999999999", "bytes +5-9/100"}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

TEST(Statuses, ArePassingWhenAPauseMayHelp) {
  for (const int status : {408, 425, 429, 500, 502, 503, 504}) EXPECT_TRUE(is_passing(status)) << status;
  for (const int status : {200, 301, 400, 401, 403, 404, 416, 501, 505}) EXPECT_FALSE(is_passing(status)) << status;
}

}  // namespace
}  // namespace millrace::web
