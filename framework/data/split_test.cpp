#include "millrace/detail/split.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

std::vector<std::uint32_t> counts(const std::vector<Share>& shares) {
  std::vector<std::uint32_t> result;
  for (const Share& share : shares) result.push_back(share.count);
  return result;
}

using Counts = std::vector<std::uint32_t>;

TEST(Split, GivesEqualSharesWithoutLoad) {
  EXPECT_EQ(counts(split(12, 3)), (Counts{4, 4, 4}));
  EXPECT_EQ(counts(split(256, 1)), (Counts{256}));
}

TEST(Split, GivesWhatIsLeftToLowerReplicas) { EXPECT_EQ(counts(split(10, 4)), (Counts{3, 3, 2, 2})); }

TEST(Split, FollowsTheLoad) {
  const double load[] = {1, 1, 0.5};
  EXPECT_EQ(counts(split(1000, 3, load)), (Counts{400, 400, 200}));
}

TEST(Split, LeavesAReplicaWithoutLoadEmpty) {
  const double load[] = {1, 0, 1};
  EXPECT_EQ(counts(split(7, 3, load)), (Counts{4, 0, 3}));
}

TEST(Split, LeavesReplicasEmptyWhenThereAreTooFewSamples) { EXPECT_EQ(counts(split(2, 4)), (Counts{1, 1, 0, 0})); }

TEST(Split, CoversTheBatchWithoutGapAndNeverShrinksAShareAsTheBatchGrows) {
  const std::vector<std::vector<double>> loads = {{1, 1, 1}, {1, 1, 0.5}, {3, 2, 1, 1}, {0.1, 0.2, 0.7}, {6, 6, 2}};
  for (const std::vector<double>& load : loads) {
    Counts before(load.size(), 0);
    for (std::uint32_t count = 1; count <= 300; ++count) {
      const std::vector<Share> shares = split(count, load.size(), load);
      std::uint32_t end = 0;
      for (std::size_t r = 0; r < shares.size(); ++r) {
        EXPECT_EQ(shares[r].begin, end);
        end += shares[r].count;
        EXPECT_GE(shares[r].count, before[r]) << "replica " << r << " of " << load.size() << ", batch " << count;
      }
      EXPECT_EQ(end, count);
      before = counts(shares);
    }
  }
}

}  // namespace
}  // namespace millrace
