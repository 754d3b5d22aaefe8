#include "millrace/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

TEST(Bf16, RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(from_bf16(to_bf16(1.0F)), 1.0F);
  EXPECT_EQ(from_bf16(to_bf16(1.0F + 0x1p-8F)), 1.0F);                // a tie, down to even
  EXPECT_EQ(from_bf16(to_bf16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);  // a tie, up to even
  EXPECT_EQ(from_bf16(to_bf16(1.0F + 0x1.2p-8F)), 1.0F + 0x1p-7F);
  EXPECT_EQ(from_bf16(to_bf16(-2.5F)), -2.5F);
  EXPECT_TRUE(std::isinf(from_bf16(to_bf16(std::numeric_limits<float>::max()))));
}

TEST(Bf16, KeepsNanAndInfinity) {
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(from_bf16(to_bf16(-std::numeric_limits<float>::infinity())), -std::numeric_limits<float>::infinity());
}

TEST(Shape, CountsAndComparesItsExtents) {
  Shape shape{2, 3};
  EXPECT_EQ(shape.elements(), 6);
  shape.push_back(4);
  EXPECT_EQ(shape, (Shape{2, 3, 4}));
  EXPECT_FALSE(shape == (Shape{2, 3}));
  EXPECT_EQ(to_string(shape), "2 x 3 x 4");
  EXPECT_EQ(Shape{}.elements(), 1);
}

TEST(ImageShape, SaysWhatIsNotKnown) {
  EXPECT_EQ(to_string(ImageShape{32, 32, 3}), "32 x 32 x 3");
  EXPECT_EQ(to_string(ImageShape{0, 0, 3}), "? x ? x 3");
  EXPECT_FALSE((ImageShape{0, 4, 3}).is_static());
  EXPECT_EQ((ImageShape{2, 3, 4}).bytes(), 24U);
}

}  // namespace
}  // namespace millrace
