// The position at which a run begins in the stream, and the part that each process reads.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "graph/graph.h"
#include "graph/line_fixture.h"
#include "millrace/error.h"

namespace millrace::position_test {
namespace {

using namespace graph_test;

struct Piece {
  std::vector<std::uint64_t> indices;
  std::uint64_t stream = 0, pixels = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// The pieces of each step in [first, last); bad samples are replaced.
std::map<std::uint64_t, Piece> run(std::uint64_t first, std::uint64_t last, std::uint32_t rank = 0, std::uint32_t ranks = 1,
                                   std::int64_t batch = 8) {
  Line line(table({{"size", number(50)}, {"bad_every", number(9)}, {"sampling", table({{"shuffle", text("every-epoch")}})}}),
            table({{"size", number(batch)}}));
  Graph& graph = line.test.make({.threads = 2, .rank = rank, .ranks = ranks});
  graph.start(first, last);
  graph.wait();
  std::map<std::uint64_t, Piece> pieces;
  for (const auto& entry : line.log->entries()) pieces[entry.step] = {entry.indices, entry.stream_hash, entry.pixel_hash};
  return pieces;
}

TEST(Position, ARunBeginsAnywhereWithTheSameSteps) {
  const auto whole = run(0, 18);  // three epochs of six steps
  ASSERT_EQ(whole.size(), 18U);
  for (const std::uint64_t first : {1U, 5U, 6U, 11U, 17U}) {
    const auto rest = run(first, 18);
    ASSERT_EQ(rest.size(), 18 - first);
    for (const auto& [step, piece] : rest) EXPECT_EQ(piece, whole.at(step)) << step;
  }
}

TEST(Position, RanksReadTheirPartAndNothingElse) {
  const auto whole = run(0, 12);
  std::map<std::uint64_t, Piece> joined;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (const auto& [step, piece] : run(0, 12, rank, 3)) {
      EXPECT_EQ(piece.indices.size(), rank < 2 ? 3U : 2U);
      joined[step].indices.insert(joined[step].indices.end(), piece.indices.begin(), piece.indices.end());
      joined[step].stream += piece.stream;
    }
  }
  ASSERT_EQ(joined.size(), whole.size());
  for (const auto& [step, piece] : joined) {
    EXPECT_EQ(piece.indices, whole.at(step).indices);
    EXPECT_EQ(piece.stream, whole.at(step).stream);
  }
}

TEST(Position, ARankWithoutASampleInTheLastBatchTakesPartAllTheSame) {
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    TestGraph test;
    test.add<CountingSource>("read", shuffled(9));
    test.add<Paint>("paint");
    test.add<CountingBatcher>("batch", table({{"size", number(4)}, {"keep_last", Value(true)}}));
    BatchLog& log = test.add<BatchLog>("log");
    test.run({.epochs = 2, .rank = rank, .ranks = 2});
    const auto entries = log.entries();
    ASSERT_EQ(entries.size(), 6U) << rank;
    for (const auto& entry : entries) EXPECT_EQ(entry.count, entry.step % 3 < 2 ? 2U : 1 - rank) << rank;
  }
}

TEST(Position, ARankWithoutWorkIsRefused) {
  EXPECT_THROW(run(0, 1, 8, 9), Error);
}

TEST(Position, TheLastBatchIsFilledUpWithTheFirstSamples) {
  TestGraph test;
  test.add<CountingSource>("read", shuffled(10));
  test.add<Paint>("paint");
  test.add<CountingBatcher>("batch", table({{"size", number(4)}, {"wrap", Value(true)}}));
  BatchLog& log = test.add<BatchLog>("log");
  test.run({.epochs = 2});
  const auto entries = log.entries();
  ASSERT_EQ(entries.size(), 6U);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    const auto& first = entries[3 * epoch].indices;
    const auto& last = entries[3 * epoch + 2].indices;
    ASSERT_EQ(last.size(), 4U);
    EXPECT_EQ(last[2], first[0]);
    EXPECT_EQ(last[3], first[1]);
  }
}

}  // namespace
}  // namespace millrace::position_test
