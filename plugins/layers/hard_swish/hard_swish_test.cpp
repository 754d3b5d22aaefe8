#include "hard_swish_kernels.h"

#include <gtest/gtest.h>

namespace millrace::layers {
namespace {

// PyTorch's gradients after its pull request 148049; inside it is x / 3 + 1 / 2.
TEST(HardSwish, HasTheGradientOfTheLinesOutsideAtItsCorners) {
  constexpr HardSwishKernel kValue;
  constexpr HardSwishGradient kGradient;
  EXPECT_EQ(kValue(-3), 0);
  EXPECT_EQ(kValue(3), 3);
  EXPECT_EQ(kGradient(-3, 2), 0);
  EXPECT_EQ(kGradient(3, 2), 2);
  EXPECT_FLOAT_EQ(kGradient(-2.999F, 1), -2.999F / 3 + 0.5F);
  EXPECT_FLOAT_EQ(kGradient(2.999F, 1), 2.999F / 3 + 0.5F);
}

}  // namespace
}  // namespace millrace::layers
