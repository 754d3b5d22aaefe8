#include "run/every.h"

#include <gtest/gtest.h>

#include "millrace/error.h"

namespace millrace {
namespace {

TEST(Every, EpochIsDueAtEachEpochsEndAndAtTheEndOfTheRun) {
  const Every every = parse_every("");
  EXPECT_FALSE(every.due(0, 10, 25));
  EXPECT_FALSE(every.due(9, 10, 25));
  EXPECT_TRUE(every.due(10, 10, 25));
  EXPECT_TRUE(every.due(20, 10, 25));
  EXPECT_TRUE(every.due(25, 10, 25));
}

TEST(Every, CountsSeveralEpochsFractionsAndSteps) {
  EXPECT_FALSE(parse_every("2 epochs").due(10, 10, 100));
  EXPECT_TRUE(parse_every("2 epochs").due(20, 10, 100));
  EXPECT_TRUE(parse_every("0.5 epochs").due(5, 10, 100));
  EXPECT_TRUE(parse_every("7 steps").due(14, 10, 100));
  EXPECT_FALSE(parse_every("7 steps").due(10, 10, 100));
  EXPECT_FALSE(parse_every("end").due(50, 10, 100));
  EXPECT_TRUE(parse_every("end").due(100, 10, 100));
}

TEST(Every, RefusesWhatItCannotRead) {
  for (const char* text : {"epochs", "0 epochs", "-1 epochs", "1.5 steps", "2 weeks", "2epochs"}) {
    EXPECT_THROW(parse_every(text), Error) << text;
  }
}

}  // namespace
}  // namespace millrace
