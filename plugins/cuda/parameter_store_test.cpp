// Where parameters lie, and that padding stays out of sight.
#include "parameter_store.h"

#include <gtest/gtest.h>

#include <numeric>

namespace millrace::cuda {
namespace {

std::vector<float> counted(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(WeightLayout, PutsChannelsLastAndZerosBehindThem) {
  const WeightLayout layout = {2, 3, 1, 2, pitch_of(2), pitch_of(3)};
  const std::vector<float> memory = to_memory(layout, counted(12));
  ASSERT_EQ(memory.size(), 8U * 2 * 8);
  // Output 1, column 1: inputs 0, 1, 2 are elements 8, 10 and 12 of (out, in, height, width), then zeros.
  const std::vector<float> row(memory.begin() + (1 * 2 + 1) * 8, memory.begin() + (1 * 2 + 2) * 8);
  EXPECT_EQ(row, (std::vector<float>{8, 10, 12, 0, 0, 0, 0, 0}));
  for (std::size_t i = 2 * 2 * 8; i < memory.size(); ++i) EXPECT_EQ(memory[i], 0.0F) << i;
}

TEST(WeightLayout, GivesBackWhatItTook) {
  for (const WeightLayout& layout : {WeightLayout{5, 3, 2, 3, 8, 8}, WeightLayout{20, 1, 3, 3, 24, 1},
                                     WeightLayout{40, 5, 3, 3, 40, 5}, WeightLayout::vector(17)}) {
    const std::vector<float> values = counted(static_cast<std::size_t>(layout.out * layout.in * layout.height * layout.width));
    EXPECT_EQ(from_memory(layout, to_memory(layout, values)), values);
  }
}

}  // namespace
}  // namespace millrace::cuda
