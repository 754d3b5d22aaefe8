#include "config/every.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

Every every_of(std::string_view text) {
  std::string hint;
  const auto every = parse_every(text, hint);
  EXPECT_TRUE(every) << text;
  return every.value_or(Every{});
}

TEST(Every, EpochIsDueAtEachEpochsEndAndAtTheEndOfTheRun) {
  const Every every = every_of("epoch");
  EXPECT_FALSE(every.due(0, 10, 25));
  EXPECT_FALSE(every.due(9, 10, 25));
  EXPECT_TRUE(every.due(10, 10, 25));
  EXPECT_TRUE(every.due(20, 10, 25));
  EXPECT_TRUE(every.due(25, 10, 25));
}

TEST(Every, CountsSeveralEpochsFractionsAndSteps) {
  EXPECT_FALSE(every_of("2 epochs").due(10, 10, 100));
  EXPECT_TRUE(every_of("2 epochs").due(20, 10, 100));
  EXPECT_TRUE(every_of("0.5 epochs").due(5, 10, 100));
  EXPECT_TRUE(every_of("7 steps").due(14, 10, 100));
  EXPECT_FALSE(every_of("7 steps").due(10, 10, 100));
  EXPECT_FALSE(every_of("end").due(50, 10, 100));
  EXPECT_TRUE(every_of("end").due(100, 10, 100));
}

TEST(Every, NeverIsNotEvenDueAtTheEnd) {
  EXPECT_TRUE(every_of("never").never);
  EXPECT_FALSE(every_of("never").due(100, 10, 100));
  EXPECT_FALSE(every_of("end").never);
}

TEST(Every, OneAloneNeedsNoNumber) {
  EXPECT_TRUE(every_of("1 epoch").due(10, 10, 100));
  EXPECT_TRUE(every_of("step").due(1, 10, 100));
  EXPECT_TRUE(every_of("1 step").due(1, 10, 100));
}

TEST(Every, CountsHowOftenItHasBeenDue) {
  for (const char* text : {"7 steps", "2 epochs", "0.3 epochs", "0.25 epochs"}) {
    const Every every = every_of(text);
    std::uint64_t due = 0;
    for (std::uint64_t done = 0; done <= 100; ++done) {
      due += every.due(done, 10, 1000) ? 1 : 0;
      EXPECT_EQ(every.times(done, 10), due) << text << " after " << done;
    }
  }
  EXPECT_EQ(every_of("end").times(100, 10), 0U);
}

TEST(Every, RefusesWhatItCannotRead) {
  for (const char* text : {"", "epochs", "0 epochs", "-1 epochs", "1.5 steps", "2 weeks", "2epochs", "2  epochs", "1e9 epochs",
                           "inf epochs", "99999999999999999999 steps", "end "}) {
    std::string hint;
    EXPECT_FALSE(parse_every(text, hint)) << text;
  }
}

TEST(Every, ANumberTakesSingularAndPlural) {
  EXPECT_EQ(every_of("1 epochs").epochs, 1);
  EXPECT_EQ(every_of("2 epoch").epochs, 2);
  EXPECT_EQ(every_of("100 step").steps, 100U);
  std::string hint;
  EXPECT_FALSE(parse_every("steps", hint));
  EXPECT_EQ(hint, "; write \"1 step\"");
}

}  // namespace
}  // namespace millrace
