#include "time_to_accuracy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::gpu {
namespace {

TEST(TimeToAccuracy, IsComparableWhereBothReachedIt) {
  EXPECT_EQ(who_fell_short({3, 0.94}, {4, 0.951}, 0.94), "");
  EXPECT_EQ(who_fell_short({3, 0.91}, {4, 0.94}, 0.94), "Millrace reached 91.00 %; wanted are 94.00 %");
  EXPECT_EQ(who_fell_short({3, 0.94}, {4, 0.9399}, 0.94), "PyTorch reached 93.99 %; wanted are 94.00 %");
  EXPECT_EQ(who_fell_short({3, 0}, {4, 0.1}, 0.9), "Millrace reached 0.00 %, PyTorch reached 10.00 %; wanted are 90.00 %");
  EXPECT_NE(who_fell_short({3, std::nan("")}, {4, 0.94}, 0.94), "") << "a training that diverged";
}

}  // namespace
}  // namespace millrace::gpu
