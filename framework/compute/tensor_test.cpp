#include "millrace/detail/tensor.h"

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

TEST(ImageShape, KnowsItsElementsAndFrames) {
  const ImageShape plain{2, 3, 4}, deep{2, 3, 4, 1, DataType::u16}, clip{2, 3, 4, 5}, unknown{2, 3, 4, 0};
  EXPECT_TRUE(plain.is_plain());
  EXPECT_FALSE(deep.is_plain());
  EXPECT_FALSE(clip.is_plain());
  EXPECT_EQ(deep.elements(), 24U);
  EXPECT_EQ(deep.bytes(), 48U);
  EXPECT_EQ(clip.bytes(), 120U);
  EXPECT_FALSE(unknown.is_static());
  EXPECT_NE(plain, deep);
  EXPECT_NE(plain, clip);
  EXPECT_EQ(to_string(deep), "2 x 3 x 4, u16");
  EXPECT_EQ(to_string(clip), "5 frames of 2 x 3 x 4");
  EXPECT_EQ(to_string(unknown), "? frames of 2 x 3 x 4");
}

}  // namespace
}  // namespace millrace
