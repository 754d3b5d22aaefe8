#include "config/quantity.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

double seconds_of(std::string_view text) {
  std::string hint;
  const auto seconds = parse_duration(text, hint);
  EXPECT_TRUE(seconds) << text;
  return seconds.value_or(-1);
}

TEST(Duration, HasSecondsMinutesHoursAndDays) {
  EXPECT_EQ(seconds_of("90 seconds"), 90);
  EXPECT_EQ(seconds_of("0.5 seconds"), 0.5);
  EXPECT_EQ(seconds_of("1 minute"), 60);
  EXPECT_EQ(seconds_of("2.5 hours"), 9000);
  EXPECT_EQ(seconds_of("day"), 86400);
}

TEST(Duration, RefusesWhatItCannotRead) {
  for (const char* text : {"", "s", "90", "90 s", "2h", "2hours", "0 hours", "-1 hours", "1 week", "2 epochs", "inf hours"}) {
    std::string hint;
    EXPECT_FALSE(parse_duration(text, hint)) << text;
    EXPECT_EQ(hint, "") << text;
  }
}

TEST(Duration, ANumberTakesSingularAndPlural) {
  std::string hint;
  EXPECT_EQ(parse_duration("2 hour", hint), 7200);
  EXPECT_EQ(parse_duration("1 hours", hint), 3600);
  EXPECT_FALSE(parse_duration("hours", hint));
  EXPECT_EQ(hint, "; write \"1 hour\"");
}

}  // namespace
}  // namespace millrace
