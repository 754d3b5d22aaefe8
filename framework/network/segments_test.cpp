#include "millrace/backend/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace millrace {
namespace {

// Node i computes layer i and reads the previous one.
std::vector<Node> chain(int length) {
  std::vector<Node> nodes(static_cast<std::size_t>(length));
  for (int i = 0; i < length; ++i) {
    Node& node = nodes[static_cast<std::size_t>(i)];
    node.layer = node.output = i;
    node.inputs = {i - 1};
  }
  return nodes;
}

// The peak, by direct simulation.
std::size_t peak(const std::vector<Node>& nodes, const std::vector<std::size_t>& bytes, const std::vector<int>& ends) {
  const std::vector<bool> kept = kept_outputs(nodes, ends);
  std::size_t before = 0, most = 0, begin = 0;
  for (const int end : ends) {
    std::size_t all = before;
    for (; begin < static_cast<std::size_t>(end); ++begin) {
      all += bytes[begin];
      if (kept[begin]) before += bytes[begin];
    }
    most = std::max(most, all);
  }
  return most;
}

TEST(Segments, OfAChainKeepAboutTwiceItsSquareRoot) {
  const std::vector<Node> nodes = chain(64);
  const std::vector<std::size_t> bytes(64, 1000);
  const std::vector<int> ends = plan_segments(nodes, bytes);
  EXPECT_EQ(ends.back(), 64);
  EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
  EXPECT_LE(peak(nodes, bytes, ends), 12'000U);  // sqrt(2 * 64): segments may shrink as what is kept grows
}

// Time and memory that grow with the square of the layers, or their cube, are not to be had here.
TEST(Segments, OfEightThousandNodesTakeNoTime) {
  const std::vector<int> ends = plan_segments(chain(8'000), std::vector<std::size_t>(8'000, 1000));
  EXPECT_EQ(ends.back(), 8'000);
  EXPECT_LE(peak(chain(8'000), std::vector<std::size_t>(8'000, 1000), ends), 135'000U);
}

TEST(Segments, OfAFewNodesAreOne) {
  EXPECT_TRUE(plan_segments({}, {}).empty());
  EXPECT_EQ(plan_segments(chain(1), std::vector<std::size_t>{5}), std::vector<int>{1});
  EXPECT_EQ(plan_segments(chain(1), std::vector<std::size_t>{0}), std::vector<int>{1});
}

// Blocks of three, with a shortcut around each: a cut within a block keeps two outputs.
TEST(Segments, AreTheBestOfAllThereAre) {
  std::vector<Node> nodes = chain(12);
  for (std::size_t block = 1; block < 4; ++block) nodes[block * 3 + 2].inputs.push_back(static_cast<int>(block * 3 - 1));
  for (const std::vector<std::size_t>& bytes :
       {std::vector<std::size_t>(12, 10), {70, 30, 50, 20, 20, 25, 10, 10, 15, 5, 5, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}}) {
    std::size_t least = 1000;
    for (unsigned cuts = 0; cuts < 1U << 11U; ++cuts) {
      std::vector<int> ends;
      for (int end = 1; end < 12; ++end) {
        if ((cuts >> static_cast<unsigned>(end - 1)) % 2 == 1) ends.push_back(end);
      }
      ends.push_back(12);
      least = std::min(least, peak(nodes, bytes, ends));
    }
    EXPECT_EQ(peak(nodes, bytes, plan_segments(nodes, bytes)), least);
  }
}

TEST(Segments, PutUpWithOneLargeMap) {
  const std::vector<Node> nodes = chain(20);
  std::vector<std::size_t> bytes(20, 1);
  bytes[3] = 100;
  EXPECT_LE(peak(nodes, bytes, plan_segments(nodes, bytes)), 108U);
}

TEST(Segments, AreNeverWorseThanKeepingAll) {
  for (unsigned seed = 1; seed < 30; ++seed) {
    std::vector<Node> nodes = chain(25);
    std::vector<std::size_t> bytes;
    unsigned random = seed;
    for (int i = 0; i < 25; ++i) {
      random = random * 1664525U + 1013904223U;
      bytes.push_back(random >> 20U);
      if (random % 3 == 0 && i > 4)
        nodes[static_cast<std::size_t>(i)].inputs.push_back(i - static_cast<int>(random >> 8U) % 4 - 2);
    }
    EXPECT_LE(peak(nodes, bytes, plan_segments(nodes, bytes)), std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
  }
}

}  // namespace
}  // namespace millrace
