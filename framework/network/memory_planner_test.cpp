#include "millrace/backend/memory_planner.h"
#include "millrace/backend/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace millrace {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }
Placement place(std::span<const Lifetime> tensors) { return millrace::place(tensors, kAlignment); }

// The most bytes alive at any one time: a lower bound for every plan.
std::size_t lower_bound_of(const std::vector<Lifetime>& tensors) {
  std::size_t most = 0;
  for (const Lifetime& at : tensors) {
    std::size_t alive = 0;
    for (const Lifetime& tensor : tensors) {
      if (tensor.first <= at.first && at.first <= tensor.last) alive += aligned(tensor.bytes);
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(MemoryPlan, OfNothingIsEmpty) { EXPECT_EQ(place({}).bytes, 0U); }

TEST(MemoryPlan, TensorsThatNeverMeetShareMemory) {
  const std::vector<Lifetime> tensors = {{100, 0, 1}, {128, 2, 3}, {64, 4, 4}};
  const Placement plan = place(tensors);
  EXPECT_EQ(plan.bytes, 128U);
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 0, 0}));
}

TEST(MemoryPlan, TensorsThatMeetInOneStepDoNot) {
  const std::vector<Lifetime> tensors = {{64, 0, 2}, {64, 2, 3}};
  const Placement plan = place(tensors);
  EXPECT_EQ(plan.bytes, 128U);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
}

TEST(MemoryPlan, TakesTheSmallestGapThatFits) {
  // The last tensor finds gaps of 256 and of 64 bytes below live tensors, left by the first and the third.
  const std::vector<Lifetime> tensors = {{256, 0, 1}, {192, 0, 9}, {128, 0, 9}, {64, 0, 1}, {60, 2, 9}, {61, 0, 9}};
  const Placement plan = place(tensors);
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 256, 448, 576, 576, 640}));
  EXPECT_EQ(plan.bytes, 704U);
}

TEST(MemoryPlan, NeverLetsLiveTensorsOverlapAndWastesLittle) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> tensors(40);
    for (Lifetime& tensor : tensors) {
      tensor.bytes = random() % 5000;
      tensor.first = static_cast<int>(random() % 30);
      tensor.last = tensor.first + static_cast<int>(random() % 10);
    }
    const Placement plan = place(tensors);
    for (std::size_t a = 0; a < tensors.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kAlignment, 0U);
      EXPECT_LE(plan.offsets[a] + tensors[a].bytes, plan.bytes);
      for (std::size_t b = 0; b < a; ++b) {
        if (tensors[a].first > tensors[b].last || tensors[b].first > tensors[a].last) continue;
        if (tensors[a].bytes == 0 || tensors[b].bytes == 0) continue;
        EXPECT_TRUE(plan.offsets[a] + tensors[a].bytes <= plan.offsets[b] ||
                    plan.offsets[b] + tensors[b].bytes <= plan.offsets[a]);
      }
    }
    EXPECT_LE(static_cast<double>(plan.bytes), 1.5 * static_cast<double>(lower_bound_of(tensors)));
  }
}

}  // namespace
}  // namespace millrace
