#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "graph/line_fixture.h"
#include "millrace/batch.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using namespace graph_test;

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

// (stream hash, pixel hash) of every step.
std::vector<std::pair<std::uint64_t, std::uint64_t>> stream(int threads, std::uint32_t chunk, std::uint64_t seed = 1) {
  Line line(table({{"size", number(96)}, {"bad_every", number(7)}, {"sampling", table({{"shuffle", text("every-epoch")}})}}),
            table({{"size", number(32)}, {"buffers", number(threads)}}), seed);
  line.test.run({.threads = threads, .epochs = 2, .chunk = chunk});
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hashes;
  for (const BatchLog::Entry& entry : line.log->entries()) hashes.emplace_back(entry.stream_hash, entry.pixel_hash);
  return hashes;
}

TEST(Graph, StreamIsTheSameForAnyThreadsChunksAndBuffers) {
  const auto one = stream(1, 0);
  ASSERT_EQ(one.size(), 6U);
  EXPECT_EQ(one, stream(2, 5));
  EXPECT_EQ(one, stream(8, 1));
  EXPECT_NE(one, stream(1, 0, 2));  // another seed
}

TEST(Graph, EpochsDifferOnlyWhenShuffledEveryEpoch) {
  for (const char* shuffle : {"never", "once", "every-epoch"}) {
    Line line(table({{"size", number(64)}, {"sampling", table({{"shuffle", text(shuffle)}})}}), table({{"size", number(64)}}));
    line.test.run({.threads = 2, .epochs = 2});
    const auto entries = line.log->entries();
    ASSERT_EQ(entries.size(), 2U);
    const std::vector<std::uint64_t>& first = entries[0].indices;
    EXPECT_EQ(std::is_sorted(first.begin(), first.end()), std::string_view(shuffle) == "never") << shuffle;
    EXPECT_EQ(first == entries[1].indices, std::string_view(shuffle) != "every-epoch") << shuffle;
  }
}

TEST(Graph, ResumesInTheMiddleOfAnEpochWithTheSameStream) {
  Line whole(shuffled(64), table({{"size", number(8)}}));
  whole.test.run({.threads = 2, .epochs = 2});
  Line part(shuffled(64), table({{"size", number(8)}}));
  part.test.make({.threads = 2}).start(11, 16);
  part.test.graph().wait();
  const auto all = whole.log->entries(), rest = part.log->entries();
  ASSERT_EQ(rest.size(), 5U);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(rest[i].step, all[11 + i].step);
    EXPECT_EQ(rest[i].stream_hash, all[11 + i].stream_hash);
  }
}

TEST(Graph, RunsAgainAfterItHasDrained) {
  Line line(shuffled(32), table({{"size", number(8)}}));
  Graph& graph = line.test.make({.threads = 2});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    graph.start(4 * epoch, 4 * epoch + 4);
    graph.wait();
    EXPECT_EQ(line.log->entries().size(), 4 * (epoch + 1));
  }
}

// As in validation, unlike an epoch that follows another.
TEST(Graph, CountsHowOftenItBeginsAgain) {
  Line line(shuffled(32), table({{"size", number(8)}}));
  std::vector<std::uint64_t> passes;
  line.log->on_batch = [&](const Packet& packet, Output&) {  // serial: steps go one by one
    passes.push_back(static_cast<const Batch&>(*packet.payload).pass);
  };
  Graph& graph = line.test.make({.threads = 2});
  for (const auto& [first, last] : {std::pair(0, 2), std::pair(0, 2), std::pair(2, 4), std::pair(0, 1)}) {
    graph.start(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last));
    graph.wait();
  }
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 0, 1, 1, 1, 1, 2}));
}

TEST(Graph, KeepsOrDropsTheIncompleteLastBatch) {
  for (const bool keep : {false, true}) {
    Line line(shuffled(22), table({{"size", number(8)}, {"keep_last", Value(keep)}}));
    line.test.run({.threads = 2, .epochs = 2});
    const auto entries = line.log->entries();
    ASSERT_EQ(entries.size(), keep ? 6U : 4U);
    if (keep) {
      EXPECT_EQ(entries[2].count, 6U);
      EXPECT_EQ(entries[5].count, 6U);
    }
  }
}

TEST(Graph, UnusedSlotsOfTheLastBatchHaveNoWeightAndNoLabel) {
  Line line(shuffled(10), table({{"size", number(8)}, {"keep_last", Value(true)}}));
  std::uint32_t looked_at = 0;
  line.log->on_batch = [&](const Packet& packet, Output&) {
    const Batch& batch = static_cast<const Batch&>(*packet.payload);
    for (std::uint32_t slot = batch.count; slot < batch.capacity(); ++slot, ++looked_at) {
      EXPECT_EQ(batch.weights[slot], 0.0F);
      EXPECT_EQ(batch.labels[slot], -1);
    }
  };
  line.test.run({.threads = 2, .epochs = 2});
  EXPECT_EQ(looked_at, 12U);
}

TEST(Graph, ReplacesBadSamplesByADrawThatDependsOnThePositionAlone) {
  const Value source = table({{"size", number(40)}, {"bad_every", number(3)}});
  const auto run = [&](const TestGraph::Options& options, std::int64_t buffers) {
    Line line(source, table({{"size", number(8)}, {"buffers", number(buffers)}}));
    line.test.run(options);
    return std::pair(line.log->entries(), line.test.recorded().bad_samples());
  };
  const auto [entries, bad] = run({.threads = 1, .chunk = 8}, 3);
  const auto [others, unused] = run({.threads = 4, .chunk = 1}, 1);
  ASSERT_EQ(entries.size(), 5U);
  ASSERT_EQ(others.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(entries[i].weight, 8.0);
    EXPECT_EQ(entries[i].indices, others[i].indices);
    for (const std::uint64_t index : entries[i].indices) EXPECT_TRUE(index == 0 || index % 3 != 0) << index;
  }
  ASSERT_GE(bad.size(), 13U);
  EXPECT_EQ(bad[0].stage, "read");
  EXPECT_EQ(bad[0].cause, "is broken");
  EXPECT_EQ(bad[0].action, "replaced");
}

TEST(Graph, SkipsBadSamplesWithoutLosingTheirSlot) {
  Line line(table({{"size", number(40)}, {"bad_every", number(4)}}), table({{"size", number(8)}, {"replace", Value(false)}}));
  line.test.run({.threads = 2});
  for (const BatchLog::Entry& entry : line.log->entries()) {
    EXPECT_EQ(entry.count, 8U);
    EXPECT_EQ(entry.weight, entry.step == 0 ? 7.0 : 6.0);  // index 0 is good
  }
}

// ---- Errors ----

std::string error_of(TestGraph& test, const TestGraph::Options& options, ErrorKind kind) {
  return testkit::error_of(kind, [&] { test.run(options); }).what();
}

TEST(GraphError, OfAReadNamesStageAndSample) {
  Line line(table({{"size", number(64)}, {"fails_at", number(17)}, {"failure", text("storage")}}), table({}));
  EXPECT_MESSAGE(error_of(line.test, {}, ErrorKind::storage));
}

class BreaksAt : public SampleTransform {
 public:
  struct Params {
    std::int64_t index = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("breaks_at");
    d.params.add("index", &Params::index);
  }
  BreaksAt(const Params& params, const StageSite&) : params_(params) {}
  void process(Sample& sample, Draw&) override {
    if (static_cast<std::int64_t>(sample.key.index) == params_.index) throw std::runtime_error("index is unlucky");
  }

 private:
  Params params_;
};

TEST(GraphError, OfASampleTransformNamesStageAndSample) {
  TestGraph test;
  test.add<CountingSource>("read");
  test.add<Paint>("paint");
  test.add<BreaksAt>("recolour", table({{"index", number(5)}}));
  test.add<CountingBatcher>("batch");
  EXPECT_MESSAGE(error_of(test, {}, ErrorKind::run));
}

// Draws without declaring it.
class DrawsInSecret : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("draws_in_secret").text("Draws."); }
  DrawsInSecret(const Params&, const StageSite&) {}
  void process(Sample& sample, Draw& draw) override {
    if (sample.key.index == 3) draw.bits();
  }
};

TEST(GraphError, OfADrawThatIsRandomDoesNotSayNamesStageAndSample) {
  TestGraph test;
  test.add<CountingSource>("read");
  test.add<Paint>("paint");
  test.add<DrawsInSecret>("tint");
  test.add<CountingBatcher>("batch");
  EXPECT_MESSAGE(error_of(test, {}, ErrorKind::usage));
}

TEST(GraphError, NamesTheLineOfTheStagesTable) {
  TestGraph test;
  Value breaks = table({{"index", number(5)}});
  breaks.set_position({std::make_shared<const std::string>("p.toml"), 4, 1});
  test.add<CountingSource>("read");
  test.add<Paint>("paint");
  test.add<BreaksAt>("recolour", breaks);
  test.add<CountingBatcher>("batch");
  EXPECT_MESSAGE(error_of(test, {}, ErrorKind::run));
}

TEST(GraphError, OfAStageAfterTheGateNamesStageAndStep) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  line.log->on_batch = [](const Packet& packet, Output&) {
    if (packet.sequence == 5) fail(ErrorKind::device, "out of memory");
  };
  EXPECT_MESSAGE(error_of(line.test, {}, ErrorKind::device));
  EXPECT_EQ(line.log->entries().size(), 6U);
}

TEST(GraphError, ReportedFromAnotherThreadEndsTheRun) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  std::vector<std::thread> devices;
  line.log->on_batch = [&](const Packet& packet, Output& output) {
    if (packet.sequence != 2) return;
    devices.emplace_back(
        [&output, hold = output.hold()]() mutable { output.fail(Error(ErrorKind::device, "fell off the bus")); });
  };
  EXPECT_MESSAGE(error_of(line.test, {.epochs = 5}, ErrorKind::device));
  for (std::thread& device : devices) device.join();
}

TEST(GraphError, StaysTheFirstAndEndsAGraphForGood) {
  Line line(table({{"size", number(64)}, {"fails_at", number(3)}}), table({}));
  EXPECT_THROW(line.test.run({}), Error);
  line.test.graph().start(0, 4);
  EXPECT_THROW(line.test.graph().wait(), Error);
}

TEST(GraphError, DoesNotWaitForWhatAJoinKeeps) {
  // A stage that keeps packets, like a join whose other half was dropped, until it is stopped.
  class Keeps : public Stage {
   public:
    struct Params {};
    static void describe(StageDescription<Params>& d) { d.name("keeps").input(payload::kBatch).stepwise().serial(); }
    Keeps(const Params&, const StageSite&) {}
    void process(int, Packet packet, Output&) override {
      kept_.push_back(std::move(packet));
      throw std::runtime_error("and fails");
    }
    void stop() noexcept override { kept_.clear(); }
    std::vector<Packet> kept_;
  };
  TestGraph test;
  test.add<CountingSource>("read");
  test.add<Paint>("paint");
  test.add<CountingBatcher>("batch");
  Keeps& keeps = test.add<Keeps>("keeps");
  EXPECT_MESSAGE(error_of(test, {}, ErrorKind::run));
  EXPECT_TRUE(keeps.kept_.empty());
}

TEST(GraphError, SaysWhenAStageSwallowsSamples) {
  class Swallows : public Stage {
   public:
    struct Params {};
    static void describe(StageDescription<Params>& d) {
      d.name("swallows").input(payload::kImageChunk).output(payload::kImageChunk);
    }
    Swallows(const Params&, const StageSite&) {}
    void process(int, Packet packet, Output& output) override {
      if (packet.sequence != 3 || packet.begin != 0) output.emit(0, std::move(packet));
    }
  };
  TestGraph test;
  test.add<CountingSource>("read");
  test.add<Paint>("paint");
  test.add<Swallows>("swallows");
  test.add<CountingBatcher>("batch");
  test.add<BatchLog>("log");
  EXPECT_MESSAGE(error_of(test, {}, ErrorKind::run));
}

TEST(GraphError, TooFewSamplesForABatchAreRefused) {
  Line line(shuffled(5), table({{"size", number(8)}}));
  EXPECT_MESSAGE(error_of(line.test, {}, ErrorKind::data));
}

}  // namespace
}  // namespace millrace
