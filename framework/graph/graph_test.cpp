#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "millrace/step.h"
#include "testkit/graph_fixture.h"
#include "testkit/stages.h"

namespace millrace {
namespace {

using testkit::BatchLog;
using testkit::CountingBatcher;
using testkit::CountingSource;
using testkit::Jitter;
using testkit::Paint;
using testkit::table;
using testkit::TestGraph;
using testkit::Turnstile;

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
  try {
    test.run(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(GraphError, OfAReadNamesStageAndSample) {
  Line line(table({{"size", number(64)}, {"fails_at", number(17)}, {"failure", text("storage")}}), table({}));
  EXPECT_EQ(error_of(line.test, {}, ErrorKind::storage), "stage 'train.read': sample 'sample/17': cannot be read");
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
  BreaksAt(const Params& params, const StageContext&) : params_(params) {}
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
  EXPECT_EQ(error_of(test, {}, ErrorKind::run), "stage 'train.recolour': sample 'sample/5': index is unlucky");
}

TEST(GraphError, OfAStageAfterTheGateNamesStageAndStep) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  line.log->on_batch = [](const Packet& packet, Output&) {
    if (packet.sequence == 5) fail(ErrorKind::device, "out of memory");
  };
  EXPECT_EQ(error_of(line.test, {}, ErrorKind::device), "stage 'train.log': step 5: out of memory");
  EXPECT_EQ(line.log->entries().size(), 6U);
}

TEST(GraphError, ReportedFromAnotherThreadEndsTheRun) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  std::vector<std::thread> devices;
  line.log->on_batch = [&](const Packet& packet, Output& output) {
    if (packet.sequence != 2) return;
    devices.emplace_back([&output, hold = output.hold()]() mutable { output.fail(Error(ErrorKind::device, "fell off the bus")); });
  };
  EXPECT_EQ(error_of(line.test, {.epochs = 5}, ErrorKind::device), "stage 'train.log': fell off the bus");
  for (std::thread& device : devices) device.join();
}

TEST(GraphError, StaysTheFirstAndEndsAGraphForGood) {
  Line line(table({{"size", number(64)}, {"fails_at", number(3)}}), table({}));
  EXPECT_THROW(line.test.run({}), Error);
  line.test.graph().start(0, 4);
  EXPECT_THROW(line.test.graph().wait(), Error);
}

TEST(GraphError, DoesNotWaitForWhatAJoinKeeps) {
  // A stage that keeps packets, as a join does whose other half was dropped, until it is told to stop.
  class Keeps : public Stage {
   public:
    struct Params {};
    static void describe(StageDescription<Params>& d) { d.name("keeps").input(payload::kBatch).stepwise().serial(); }
    Keeps(const Params&, const StageContext&) {}
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
  EXPECT_EQ(error_of(test, {}, ErrorKind::run), "stage 'train.keeps': step 0: and fails");
  EXPECT_TRUE(keeps.kept_.empty());
}

TEST(GraphError, SaysWhenAStageSwallowsSamples) {
  class Swallows : public Stage {
   public:
    struct Params {};
    static void describe(StageDescription<Params>& d) {
      d.name("swallows").input(payload::kImageChunk).output(payload::kImageChunk);
    }
    Swallows(const Params&, const StageContext&) {}
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
  EXPECT_NE(error_of(test, {}, ErrorKind::run).find("graph 'train': step 3 never became complete"), std::string::npos);
}

TEST(GraphError, TooFewSamplesForABatchAreRefused) {
  Line line(shuffled(5), table({{"size", number(8)}}));
  EXPECT_EQ(error_of(line.test, {}, ErrorKind::data),
            "graph 'train': 5 samples do not fill a batch of 8; make the batch smaller, or keep the last one");
}

// ---- The gate, credits, stopping ----

TEST(Gate, HoldsTheNextStepUntilTheTokenIsHome) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  Ref<Payload> kept;
  std::mutex mutex;
  line.log->on_batch = [&](const Packet& packet, Output&) {
    const std::lock_guard lock(mutex);
    if (packet.sequence == 2) kept = packet.token;
  };
  Graph& graph = line.test.make({.threads = 2});
  graph.start(0, 8);
  while (line.log->entries().size() < 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(line.log->entries().size(), 3U);
  {
    const std::lock_guard lock(mutex);
    kept = nullptr;
  }
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 8U);
}

TEST(Gate, WaitsForResumeWhenStepDoneSaysSo) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  Graph& graph = line.test.make({.threads = 2});
  std::vector<std::uint64_t> done;
  std::atomic<bool> closed{false};
  graph.on_step_done([&](std::uint64_t step) {
    done.push_back(step);  // one at a time: there is one token
    if (step == 3) closed = true;
    return step != 3;
  });
  graph.start(0, 8);
  while (!closed) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(line.log->entries().size(), 4U);
  graph.resume();
  graph.wait();
  EXPECT_EQ(done, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Gate, StopsAClosedGraph) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  Graph& graph = line.test.make({.threads = 2});
  std::atomic<bool> closed{false};
  graph.on_step_done([&](std::uint64_t) {
    closed = true;
    return false;
  });
  graph.start(0, 8);
  while (!closed) std::this_thread::yield();
  graph.stop();
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 1U);
}

TEST(Gate, ServesEveryReplicaAndWaitsForAllOfThem) {
  class Forward : public Stage {
   public:
    struct Params {};
    static void describe(StageDescription<Params>& d) {
      d.name("forward").input(payload::kBatch).output(payload::kGradientBucket).per_replica().stepwise();
    }
    Forward(const Params&, const StageContext& context) : replica_(context.replica) {}
    void process(int, Packet packet, Output& output) override {
      const Ref<GradientBucket> bucket = make_ref<GradientBucket>();
      bucket->token = Ref<StepToken>(static_cast<StepToken*>(packet.token.get()));
      bucket->step = packet.sequence;
      bucket->replica = replica_;
      packet.payload = bucket;
      packet.token = nullptr;
      packet.replica = replica_;
      output.emit(0, std::move(packet));
    }

   private:
    int replica_;
  };
  class Update : public Stage {
   public:
    struct Params {};
    static void describe(StageDescription<Params>& d) { d.name("update").input(payload::kGradientBucket).per_replica(); }
    Update(const Params&, const StageContext& context) : replica_(context.replica) {}
    void process(int, Packet packet, Output&) override {
      const auto& bucket = static_cast<const GradientBucket&>(*packet.payload);
      EXPECT_EQ(bucket.replica, replica_);
      EXPECT_EQ(bucket.step, updates);
      ++updates;
    }
    std::uint64_t updates = 0;

   private:
    int replica_;
  };
  TestGraph test(1, 3);
  test.add("read", StageTypeAccess::make<CountingSource>());
  test.add<Paint>("paint");
  test.add<CountingBatcher>("batch");
  test.add("forward", StageTypeAccess::make<Forward>());
  test.add("update", StageTypeAccess::make<Update>());
  std::atomic<std::uint64_t> steps{0};
  test.make({.threads = 3, .epochs = 4}).on_step_done([&](std::uint64_t step) {
    EXPECT_EQ(step, steps++);
    for (int replica = 0; replica < 3; ++replica) EXPECT_EQ(test.instance<Update>("update", replica).updates, step + 1);
    return true;
  });
  test.graph().start(0, 32);
  test.graph().wait();
  EXPECT_EQ(steps, 32U);
}

TEST(Credits, BoundWhatIsUnderWay) {
  for (const std::int64_t buffers : {1, 2, 3}) {
    TestGraph test;
    test.add<CountingSource>("read", shuffled(64));
    test.add<Paint>("paint");
    Turnstile& turnstile = test.add<Turnstile>("turnstile");
    test.add<CountingBatcher>("batch", table({{"size", number(4)}, {"buffers", number(buffers)}}));
    test.add<BatchLog>("log");
    test.make({.threads = 2, .chunk = 1}).start(0, 16);
    const auto most = static_cast<std::size_t>(4 * buffers);
    turnstile.wait_for(most);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(turnstile.wait_for(0), most);
    turnstile.let_all_pass();
    test.graph().wait();
    EXPECT_LE(test.graph().figures().packets_in_flight_most, most);
  }
}

TEST(Credits, AreNotNeededByMoreThanOneStepAtATime) {
  Line line(shuffled(64), table({{"size", number(4)}, {"buffers", number(1)}}));
  line.test.run({.threads = 2, .epochs = 3});
  EXPECT_EQ(line.log->entries().size(), 48U);
}

TEST(Stop, FinishesWhatIsUnderWayAndReturnsNormally) {
  Line line(shuffled(64), table({{"size", number(4)}}));
  Graph& graph = line.test.make({.threads = 2});
  line.log->on_batch = [&](const Packet& packet, Output&) {
    if (packet.sequence == 6) graph.stop();
  };
  graph.start(0, 1000);
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 7U);
  line.log->on_batch = nullptr;
  graph.start(7, 10);  // and goes on where it was told to
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 10U);
}

TEST(Stop, MayComeTwiceOrBeforeTheStart) {
  Line line(shuffled(64), table({{"size", number(4)}}));
  Graph& graph = line.test.make({.threads = 2});
  graph.stop();
  graph.stop();
  graph.wait();
  graph.start(0, 2);
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 2U);
}

TEST(Stop, IsWhatTheDestructorDoes) {
  Line line(shuffled(64), table({{"size", number(4)}}));
  line.test.make({.threads = 2}).start(0, 100000);
}

TEST(Graph, WaitsForWorkThatAStageHolds) {
  Line line(shuffled(16), table({{"size", number(4)}}));
  std::atomic<int> finished{0};
  std::vector<std::thread> devices;
  line.log->on_batch = [&](const Packet&, Output& output) {
    devices.emplace_back([&finished, hold = output.hold()] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ++finished;
    });
  };
  line.test.run({.threads = 2});
  EXPECT_EQ(finished, 4);
  for (std::thread& device : devices) device.join();
}

// ---- Figures ----

TEST(Figures, CountPacketsSamplesAndWaiting) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  line.test.run({.threads = 2, .epochs = 2, .chunk = 4});
  const Graph::Figures figures = line.test.graph().figures();
  ASSERT_EQ(figures.stages.size(), 5U);
  for (const Graph::StageFigures& stage : figures.stages) {
    EXPECT_EQ(stage.samples, 128U) << stage.name;
    EXPECT_EQ(stage.packets, stage.name == "log" ? 16U : 32U) << stage.name;
  }
  ASSERT_EQ(figures.edges.size(), 5U);  // four, and the one for retries
  EXPECT_EQ(figures.edges[0].from, "read");
  EXPECT_EQ(figures.edges[0].to, "paint");
  EXPECT_EQ(figures.edges[0].packets, 32U);
  EXPECT_EQ(figures.edges[4].packets, 0U);
  for (const Graph::EdgeFigures& edge : figures.edges) EXPECT_EQ(edge.level, 0) << edge.from;
  EXPECT_GT(figures.packets_in_flight_most, 0U);
}

TEST(Figures, SayThatDataWasWaitedFor) {
  Line line(table({{"size", number(16)}, {"sleep_microseconds", number(2000)}}), table({{"size", number(4)}}));
  line.test.run({});
  EXPECT_GT(line.test.graph().figures().waited_for_data_seconds, 0.0);
}

TEST(Figures, SayThatAStepWasWaitedFor) {
  Line line(shuffled(16), table({{"size", number(8)}}));
  Graph& graph = line.test.make({});
  const auto at_the_gate = [&] { return graph.figures().edges[3].level; };
  line.log->on_batch = [&](const Packet& packet, Output&) {  // the first step ends when the second one's batch stands at the gate
    while (packet.sequence == 0 && at_the_gate() == 0) std::this_thread::yield();
  };
  graph.start(0, 2);
  graph.wait();
  EXPECT_GT(graph.figures().waited_for_step_seconds, 0.0);
}

TEST(MemoryBound, HoldsForTheBatches) {
  Line line(shuffled(64), table({{"size", number(8)}, {"buffers", number(3)}}));
  const std::size_t bound = line.test.make({}).memory_bound();
  EXPECT_GE(bound, 3U * 8U * (4 * 4 * 3 + 8));
  EXPECT_LT(bound, 3U * 8U * 1024U);
}

}  // namespace
}  // namespace millrace
