#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "testkit/graph_fixture.h"
#include "testkit/stages.h"

namespace millrace {
namespace {

using testkit::BatchLog;
using testkit::CountingBatcher;
using testkit::CountingSource;
using testkit::Fault;
using testkit::Jitter;
using testkit::Paint;
using testkit::table;
using testkit::TestGraph;

Value number(std::int64_t value) { return Value(value); }
Value text(const char* value) { return Value(std::string(value)); }

Value shuffled(std::int64_t size) {
  return table({{"size", number(size)}, {"sampling", table({{"shuffle", text("every-epoch")}})}});
}

// read -> paint -> jitter -> batch -> log
struct Line {
  explicit Line(const Value& source, const Value& batch, std::uint64_t seed = 1) : test(seed) {
    test.add<CountingSource>("read", source);
    test.add<Paint>("paint");
    test.add<Jitter>("jitter");
    test.add<CountingBatcher>("batch", batch);
    log = &test.add<BatchLog>("log");
  }
  TestGraph test;
  BatchLog* log;
};

TEST(Graph, DeliversEverySampleOnceAnEpoch) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  line.test.run({.threads = 2, .epochs = 3});
  const auto entries = line.log->entries();
  ASSERT_EQ(entries.size(), 24U);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::uint64_t> seen;
    for (const auto& entry : entries) {
      if (entry.epoch == epoch) seen.insert(entry.indices.begin(), entry.indices.end());
    }
    EXPECT_EQ(seen.size(), 64U);
  }
}

TEST(Graph, GivesStepsInOrderEachWithTheToken) {
  Line line(shuffled(64), table({{"size", number(4)}, {"buffers", number(3)}}));
  line.test.run({.threads = 4, .epochs = 2, .chunk = 1});
  const auto entries = line.log->entries();
  ASSERT_EQ(entries.size(), 32U);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].step, i);
    EXPECT_TRUE(entries[i].had_token);
  }
}

}  // namespace
}  // namespace millrace
