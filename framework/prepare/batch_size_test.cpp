#include "prepare/batch_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

// The result if sizes up to `limit` fit, and the sizes tried.
struct Search {
  Search(std::uint32_t least, std::uint32_t most, std::uint32_t limit)
      : found(largest_batch(least, most, [&](std::uint32_t size) {
          asked.push_back(size);
          if (size <= limit) kept = size;
          return size <= limit;
        })) {}

  std::vector<std::uint32_t> asked;
  std::uint32_t kept = 0;  // the last size that fitted
  std::uint32_t found;
};

TEST(BatchSize, IsTheWholeDataSetWhereThatFits) {
  EXPECT_EQ(Search(1, 50'000, 1'000'000).found, 50'000U);
  EXPECT_EQ(Search(1, 13, 1000).found, 13U);
  EXPECT_EQ(Search(4, 3, 1000).found, 3U);
  EXPECT_EQ(Search(1, 1 << 24, 1U << 30U).found, 1U << 24U);
}

TEST(BatchSize, IsAMultipleOfEightForEachReplica) {
  EXPECT_EQ(Search(1, 50'000, 100).found, 96U);
  EXPECT_EQ(Search(2, 50'000, 100).found, 96U);
  EXPECT_EQ(Search(3, 50'000, 100).found, 96U);
  EXPECT_EQ(Search(1, 50'000, 8).found, 8U);
  EXPECT_EQ(Search(1, 50'000, 700).found, 672U);  // 1024 / 32 = 32 is the interval above 512
}

TEST(BatchSize, IsSmallerThanEightWhereThatIsAllThatFits) {
  EXPECT_EQ(Search(1, 50'000, 7).found, 4U);
  EXPECT_EQ(Search(3, 50'000, 7).found, 6U);
  EXPECT_EQ(Search(1, 6, 5).found, 4U);
  EXPECT_EQ(Search(1, 50'000, 1).found, 1U);
}

TEST(BatchSize, IsNothingWhereNothingFits) {
  EXPECT_EQ(Search(1, 50'000, 0).found, 0U);
  EXPECT_EQ(Search(3, 50'000, 2).found, 0U);
  EXPECT_EQ(Search(2, 1, 0).found, 0U);
}

// Wastes at most a sixteenth at any limit; and the last size kept is the result.
TEST(BatchSize, IsNearTheLimitAfterFewTries) {
  for (const std::uint32_t least : {1U, 2U, 6U}) {
    for (std::uint32_t limit = 8 * least; limit < 40'000; limit += 1 + limit / 7) {
      const Search search(least, 60'000, limit);
      EXPECT_LE(search.found, limit);
      EXPECT_LT(limit - search.found, std::max(8 * least, search.found / 16 + 1)) << least << ' ' << limit;
      EXPECT_EQ(search.found % (8 * least), 0U);
      EXPECT_EQ(search.kept, search.found);
      EXPECT_LE(search.asked.size(), 20U);
    }
  }
}

}  // namespace
}  // namespace millrace
