#include "kernels_fixture.h"

namespace millrace::cpu {
namespace {

// Odd sizes, and one large enough for a team.
constexpr std::size_t kSizes[] = {1, 15, 16, 37, 40003};

template <class Body>
void for_each_size(const Body& body) {
  for (const Kernels* const* kernels = all_kernels(); *kernels != nullptr; ++kernels) {
    for (const std::size_t size : kSizes) {
      SCOPED_TRACE(std::string((*kernels)->instruction_set) + ", " + std::to_string(size) + " elements");
      body(**kernels, size);
    }
  }
}

TEST(Blend, MovesTheCopyAndTakesItWhereItIsWrittenBack) {
  for_each_size([](const Kernels& k, std::size_t size) {
    for (const bool write_back : {false, true}) {
      std::vector<float> value = random_values(size, 1), copy = random_values(size, 2);
      const std::vector<float> fast = value, before = copy;
      k.blend(value.data(), copy.data(), 0.75, write_back, size);
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(copy[i], 0.75 * before[i] + 0.25 * fast[i], 1e-6);
      EXPECT_EQ(value, write_back ? copy : fast);
      const std::vector<float> blended = copy;
      k.blend(value.data(), copy.data(), 1, write_back, size);
      EXPECT_EQ(copy, blended);
    }
  });
}

TEST(Sum, AddsInOrderAndMayWriteOverASource) {
  for_each_size([](const Kernels& k, std::size_t size) {
    std::vector<float> a = random_values(size, 1), b = random_values(size, 2), c = random_values(size, 3), to(size);
    std::vector<float> expected(size);
    for (std::size_t i = 0; i < size; ++i) expected[i] = (a[i] + b[i]) + c[i];
    const float* const sources[] = {a.data(), b.data(), c.data()};
    k.sum(to.data(), sources, 3, size);
    EXPECT_EQ(to, expected);
    k.sum(c.data(), sources, 3, size);
    EXPECT_EQ(c, expected);
  });
}

TEST(Convert, RoundsAsTheHostDoesAndKeepsNan) {
  for_each_size([](const Kernels& k, std::size_t size) {
    std::vector<float> from = random_values(size, 1), back(size);
    from[0] = std::nanf("");
    if (size > 4) from[1] = INFINITY, from[2] = 1.00390625F, from[3] = 1.01171875F;  // the last two lie halfway
    std::vector<std::uint16_t> half(size);
    k.to_bf16(from.data(), half.data(), size);
    k.to_f32(half.data(), back.data(), size);
    EXPECT_TRUE(std::isnan(back[0]));
    for (std::size_t i = 1; i < size; ++i) {
      ASSERT_EQ(half[i], to_bf16(from[i]));
      ASSERT_EQ(back[i], from_bf16(half[i]));
    }
  });
}

}  // namespace
}  // namespace millrace::cpu
