#include "millrace/detail/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace millrace {
namespace {

// The known answers published with the reference implementation (Random123, kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(Philox::block({0, 0, 0, 0}, {0, 0}), (Philox::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox::block({ones, ones, ones, ones}, {ones, ones}),
            (Philox::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Philox::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Mix64, IsSplitmix64) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafULL);  // the first word of splitmix64 seeded with 0
}

// Chi-square of `counts` against equal expectation, as a number of standard deviations from its mean.
double surprise(const std::vector<std::uint64_t>& counts) {
  double total = 0;
  for (const auto count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  double chi = 0;
  for (const auto count : counts) chi += std::pow(static_cast<double>(count) - expected, 2) / expected;
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}

Draw draw_at(std::uint64_t position, std::uint64_t epoch = 0, std::uint32_t attempt = 0, std::uint64_t seed = 1,
             std::string_view stage = "augment") {
  return Draw(seed, SampleKey{epoch, position, 7, attempt}, hash_text(stage));
}

TEST(Draw, DependsOnEverythingButTheIndex) {
  std::set<std::uint32_t> words;
  words.insert(draw_at(0).bits());
  words.insert(draw_at(1).bits());
  words.insert(draw_at(std::uint64_t{1} << 32).bits());
  words.insert(draw_at(std::uint64_t{1} << 47).bits());
  words.insert(draw_at(0, 1).bits());
  words.insert(draw_at(0, 0, 1).bits());
  words.insert(draw_at(0, 0, 0, 2).bits());
  words.insert(draw_at(0, 0, 0, 1, "crop").bits());
  EXPECT_EQ(words.size(), 8U);
  EXPECT_EQ(draw_at(3).bits(), Draw(1, SampleKey{0, 3, 99, 0}, hash_text("augment")).bits());
}

TEST(Draw, IsUniformOverPositionsAndOverDraws) {
  std::vector<std::uint64_t> first(64), later(64);
  for (std::uint64_t position = 0; position < 64'000; ++position) ++first[draw_at(position).bits() >> 26];
  Draw one = draw_at(0);
  for (int i = 0; i < 64'000; ++i) ++later[one.bits() >> 26];
  EXPECT_LT(std::abs(surprise(first)), 4);
  EXPECT_LT(std::abs(surprise(later)), 4);
}

TEST(Draw, IntegersReachBothEndsEvenly) {
  std::vector<std::uint64_t> counts(9);
  Draw draw = draw_at(5);
  for (int i = 0; i < 90'000; ++i) {
    const std::int64_t value = draw.integer(-4, 4);
    ASSERT_GE(value, -4);
    ASSERT_LE(value, 4);
    ++counts[static_cast<std::size_t>(value + 4)];
  }
  EXPECT_LT(std::abs(surprise(counts)), 4);
}

TEST(Draw, IntegersOfHugeRangesHaveNoBias) {
  // 3 * 2^30 values: the remainder of 32 bits would double the share of the first third.
  std::vector<std::uint64_t> counts(3);
  Draw draw = draw_at(6);
  for (int i = 0; i < 60'000; ++i) ++counts[static_cast<std::size_t>(draw.integer(0, (std::int64_t{3} << 30) - 1) >> 30)];
  EXPECT_LT(std::abs(surprise(counts)), 4);
  // Likewise with 64 bits: 3 * 2^62 values.
  std::vector<std::uint64_t> wide(3);
  const std::int64_t low = std::numeric_limits<std::int64_t>::min();
  const auto high = static_cast<std::int64_t>((std::uint64_t{1} << 62) - 1);
  for (int i = 0; i < 60'000; ++i) {
    const auto offset = static_cast<std::uint64_t>(draw.integer(low, high)) - static_cast<std::uint64_t>(low);
    ++wide[static_cast<std::size_t>(offset >> 62)];
  }
  EXPECT_LT(std::abs(surprise(wide)), 4);
}

TEST(Draw, IntegersOfTheWholeRangeAndOfOneValueWork) {
  Draw draw = draw_at(7);
  EXPECT_EQ(draw.integer(42, 42), 42);
  EXPECT_NE(draw.integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()),
            draw.integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  EXPECT_GE(draw.integer(0, 0xffffffffLL), 0);
  EXPECT_LE(draw.integer(0, 0xfffffffeLL), 0xfffffffeLL);
}

TEST(Draw, ChanceAlwaysDraws) {
  Draw never = draw_at(8), always = draw_at(8), half = draw_at(8);
  EXPECT_FALSE(never.chance(0));
  EXPECT_TRUE(always.chance(1));
  half.chance(0.5);
  EXPECT_EQ(never.hash(), always.hash());
  EXPECT_EQ(never.bits(), half.bits());
}

TEST(Draw, UniformStaysInItsInterval) {
  Draw draw = draw_at(9);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = draw.uniform(-2, 3);
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 3);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.06);  // four standard deviations
  EXPECT_EQ(draw.uniform(1.5, 1.5), 1.5);
}

TEST(Draw, NormalHasMeanZeroAndDeviationOne) {
  Draw draw = draw_at(10);
  double sum = 0, squares = 0, fourth = 0;
  const int count = 40'000;
  for (int i = 0; i < count; ++i) {
    const double value = draw.normal();
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.03);
  EXPECT_NEAR(fourth / count, 3, 0.2);
}

TEST(Draw, HashTellsWhatWasDrawn) {
  Draw none = draw_at(0), one = draw_at(0), two = draw_at(0), same = draw_at(0);
  one.bits();
  same.bits();
  two.bits();
  two.bits();
  EXPECT_EQ(none.hash(), 0U);
  EXPECT_NE(one.hash(), 0U);
  EXPECT_EQ(one.hash(), same.hash());
  EXPECT_NE(one.hash(), two.hash());
}

TEST(HashBytes, DependsOnEveryByteAndOnTheSize) {
  std::set<std::uint64_t> hashes;
  std::string bytes(200, '\0');
  std::size_t made = 0;
  for (std::size_t size = 0; size <= bytes.size(); ++size, ++made) hashes.insert(hash_bytes(bytes.data(), size));
  for (std::size_t at = 0; at < bytes.size(); ++at, ++made) {
    bytes[at] = 1;
    hashes.insert(hash_bytes(bytes.data(), bytes.size()));
    bytes[at] = 0;
  }
  hashes.insert(hash_bytes(bytes.data(), bytes.size(), 1));
  EXPECT_EQ(hashes.size(), made + 1);
}

TEST(HashBytes, DoesNotDependOnAlignment) {
  std::vector<std::uint8_t> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i % 7);
  EXPECT_EQ(hash_bytes(bytes.data(), 200), hash_bytes(bytes.data() + 7, 200));
}

TEST(Permutation, IsABijectionForEverySize) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 1000, 1024, 1025, 4097, 50'000}) {
    for (const std::uint64_t epoch : {0, 1, 9}) {
      const Permutation permutation(size, 3, epoch);
      std::vector<bool> seen(size);
      for (std::uint64_t position = 0; position < size; ++position) {
        const std::uint64_t index = permutation(position);
        ASSERT_LT(index, size);
        ASSERT_FALSE(seen[index]) << size << ' ' << position;
        seen[index] = true;
      }
    }
  }
}

TEST(Permutation, WorksForSizesThatNoListCouldHold) {
  const std::uint64_t size = (std::uint64_t{1} << 62) + 12345;
  const Permutation permutation(size, 1, 0);
  std::set<std::uint64_t> seen;
  for (std::uint64_t position = 0; position < 1000; ++position) seen.insert(permutation(size - 1 - position));
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_LT(*seen.rbegin(), size);
  EXPECT_GT(*seen.rbegin(), size / 2);
}

TEST(Permutation, DiffersBetweenEpochsAndSeeds) {
  const Permutation first(50'000, 1, 0), epoch(50'000, 1, 1), seed(50'000, 2, 0), again(50'000, 1, 0);
  int same_epoch = 0, same_seed = 0, in_place = 0, neighbours = 0;
  for (std::uint64_t position = 0; position + 1 < 50'000; ++position) {
    same_epoch += first(position) == epoch(position);
    same_seed += first(position) == seed(position);
    in_place += first(position) == position;
    neighbours += first(position) + 1 == first(position + 1);
    ASSERT_EQ(first(position), again(position));
  }
  // A random permutation has about one of each.
  EXPECT_LT(same_epoch, 8);
  EXPECT_LT(same_seed, 8);
  EXPECT_LT(in_place, 8);
  EXPECT_LT(neighbours, 8);
}

TEST(Permutation, OfAShortListTakesEveryOrder) {
  std::map<std::vector<std::uint64_t>, std::uint64_t> orders;
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) {
    const Permutation permutation(3, 5, epoch);
    ++orders[{permutation(0), permutation(1), permutation(2)}];
  }
  ASSERT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_GT(count, 500U);
}

}  // namespace
}  // namespace millrace
