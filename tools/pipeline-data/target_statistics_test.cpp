#include "target_statistics.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(NumberColumn, StandsLargeNumbersThatDifferLittle) {
  NumberColumn one, two;
  for (const double value : {-1.0, 1.0}) one.add(1e9 + value);
  for (const double value : {-3.0, 3.0, 0.0}) two.add(1e9 + value);
  one.add(two);
  one.add(NumberColumn());
  EXPECT_EQ(one.count(), 5U);
  EXPECT_EQ(one.least(), 1e9 - 3);
  EXPECT_EQ(one.most(), 1e9 + 3);
  EXPECT_NEAR(one.mean(), 1e9, 1e-3);
  EXPECT_NEAR(one.deviation(), 2, 1e-6);  // the root of (1 + 1 + 9 + 9 + 0) / 5
}

}  // namespace
}  // namespace millrace
