#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "graph/line_of_stages.h"
#include "millrace/batch.h"

namespace millrace {
namespace {

using namespace graph_test;

// ---- The gate, credits, stopping ----

TEST(Gate, HoldsTheNextStepUntilTheTokenIsHome) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  KeptToken kept;
  line.log->on_batch = [&](const Packet& packet, Output&) {
    if (packet.sequence == 2) kept.keep(packet.token);
  };
  Graph& graph = line.test.make({.threads = 2});
  graph.start(0, 8);
  kept.wait_until_kept();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(line.log->entries().size(), 3U);
  kept.let_go();
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 8U);
}

// A failure gives up all that is out, also what is on its way home on a thread that the graph does not know.
TEST(Gate, WaitsForATokenThatIsOnItsWayHomeWhenTheRunFails) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  KeptToken kept;
  Output* output = nullptr;
  line.log->on_batch = [&](const Packet& packet, Output& of_stage) {
    output = &of_stage;
    kept.keep(packet.token);
  };
  Graph& graph = line.test.make({.threads = 2});
  std::atomic<bool> returned{false};
  graph.on_step_done([&](std::uint64_t) {
    output->fail(Error(ErrorKind::device, "the cable is out"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    returned = true;
  });
  graph.start(0, 8);
  kept.wait_until_kept();
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kept.let_go();
  });
  EXPECT_THROW(graph.wait(), Error);
  EXPECT_TRUE(returned) << "the graph counted as ended while a thread was inside it";
  device.join();
}

TEST(Gate, IsOpenBelowItsHorizon) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  Graph& graph = line.test.make({.threads = 2});
  std::vector<std::uint64_t> done;
  std::atomic<std::uint64_t> steps{0};
  graph.on_step_done([&](std::uint64_t step) {
    done.push_back(step);  // one at a time: there is one token
    ++steps;
  });
  EXPECT_EQ(graph.set_horizon(4), 4U);
  graph.start(0, 8);
  for (const std::uint64_t horizon : {4U, 6U}) {
    EXPECT_EQ(graph.set_horizon(horizon), horizon);
    while (steps < horizon) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(line.log->entries().size(), horizon);
  }
  EXPECT_EQ(graph.set_horizon(0), 6U) << "steps that have passed";
  EXPECT_EQ(graph.set_horizon(UINT64_MAX), UINT64_MAX);
  graph.wait();
  EXPECT_EQ(done, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Gate, IsHeldByTheCallbackBeforeTheNextStep) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  Graph& graph = line.test.make({.threads = 2});
  std::atomic<bool> held{false};
  graph.on_step_done([&](std::uint64_t step) {
    if (step != 3) return;
    graph.hold();
    held = true;
  });
  graph.start(0, 8);
  while (!held) std::this_thread::yield();
  EXPECT_EQ(graph.set_horizon(UINT64_MAX), UINT64_MAX);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(line.log->entries().size(), 4U);
  EXPECT_EQ(graph.stall_report().waiting_for, Graph::WaitingFor::run);
  graph.resume();
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 8U);
}

TEST(Gate, StopsAClosedGraph) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  Graph& graph = line.test.make({.threads = 2});
  std::atomic<bool> closed{false};
  graph.on_step_done([&](std::uint64_t) {
    closed = true;
    graph.set_horizon(0);
  });
  graph.start(0, 8);
  while (!closed) std::this_thread::yield();
  graph.stop();
  graph.wait();
  EXPECT_EQ(line.log->entries().size(), 1U);
}

// Weighs as many as its replica's number and the batch's samples say, and notes the sums that come.
class Weighing : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("weighing").input(payload::kBatch).per_replica().stepwise(); }
  Weighing(const Params&, const StepContext& context) : replica_(context.replica) {}
  std::vector<double> weigh(const Batch& batch) const override { return {(replica_ + 1) * static_cast<double>(batch.count), 1}; }
  void process(int, Packet packet, Output&) override {
    sums.insert(sums.end(), packet.weights.begin(), packet.weights.end());
    hashes.push_back(static_cast<const Batch&>(*packet.payload).stream_hash);
  }
  std::vector<double> sums;
  std::vector<std::uint64_t> hashes;

 private:
  int replica_;
};

struct WeighingLine {
  WeighingLine() : test(1, 3) {
    test.add<CountingSource>("read", shuffled(64));
    test.add<Paint>("paint");
    test.add<CountingBatcher>("batch", table({{"size", number(8)}}));
    test.add("weighing", StageTypeAccess::make<Weighing>());
  }
  TestGraph test;
};

TEST(Gate, GivesEachReplicaWhatAllOfThemWeigh) {
  WeighingLine line;
  line.test.run({.threads = 3});
  for (int replica = 0; replica < 3; ++replica) {
    const std::vector<double>& sums = line.test.instance<Weighing>("weighing", replica).sums;
    ASSERT_EQ(sums.size(), 2 * 8U);
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], i % 2 == 0 ? 6 * 8.0 : 3.0);
  }
}

TEST(Gate, BeginsAStepWhenTheProcessesHaveAgreed) {
  WeighingLine line;
  Graph& graph = line.test.make({.threads = 3});
  std::mutex mutex;
  std::map<std::uint64_t, std::function<void(Graph::StepAgreed)>> asked;
  graph.on_step_ready([&](const Graph::StepReady& ready, auto answer) {
    EXPECT_EQ(ready.weights, (std::vector<std::vector<std::vector<double>>>{{{8, 1}, {16, 1}, {24, 1}}}));
    const std::lock_guard lock(mutex);
    asked[ready.step] = std::move(answer);
  });
  graph.start(0, 8);
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::function<void(Graph::StepAgreed)> answer;
    while (!answer) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex);
      if (asked.contains(step)) answer = asked[step];
    }
    Graph::StepAgreed agreed{.stream_hash = 100 + step, .weights = {{0.5}}};
    agreed.go_on = step < 2;
    answer(agreed);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  graph.stop();
  graph.wait();
  const auto& first = line.test.instance<Weighing>("weighing", 0);
  EXPECT_EQ(first.sums, std::vector<double>(2, 0.5));
  EXPECT_EQ(first.hashes, (std::vector<std::uint64_t>{100, 101}));
}

// More steps than batches circulate, so their batches go home.
TEST(Gate, LeavesOutStepsAndGoesOnBehindThem) {
  Line line(shuffled(64), table({{"size", number(8)}}));
  Graph& graph = line.test.make({.threads = 3});
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> hashes;  // by step
  graph.on_step_ready([&](Graph::StepReady ready, const auto& answer) {
    {
      const std::lock_guard lock(mutex);
      hashes[ready.step] = ready.batch->stream_hash;
    }
    ready.batch = nullptr;
    answer({.leave_out = true});
  });
  graph.start(3, 13);
  graph.wait();
  EXPECT_TRUE(line.log->entries().empty());
  ASSERT_EQ(hashes.size(), 10U);
  graph.on_step_ready({});
  graph.start(13, 15);
  graph.wait();
  ASSERT_EQ(line.log->entries().size(), 2U);
  EXPECT_EQ(line.log->entries()[0].step, 13U);
  graph.start(3, 13);
  graph.wait();
  const auto entries = line.log->entries();
  ASSERT_EQ(entries.size(), 12U);
  for (std::size_t i = 2; i < 12; ++i) EXPECT_EQ(entries[i].stream_hash, hashes.at(entries[i].step));
}

TEST(Gate, EndsTheGraphWhenTheProcessesCannotAgree) {
  WeighingLine line;
  Graph& graph = line.test.make({.threads = 2});
  graph.on_step_ready([](const Graph::StepReady&, const std::function<void(Graph::StepAgreed)>& answer) {
    answer({.error = Error(ErrorKind::peer, "process 1 of 2 is lost")});
  });
  graph.start(0, 8);
  EXPECT_THROW(graph.wait(), Error);
}

TEST(Gate, ServesEveryReplicaAndWaitsForAllOfThem) {
  class Forward : public Stage {
   public:
    struct Params {};
    static void describe(StageDescription<Params>& d) {
      d.name("forward").input(payload::kBatch).output(payload::kGradientBucket).per_replica().stepwise();
    }
    Forward(const Params&, const StepContext& context) : replica_(context.replica) {}
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
    Update(const Params&, const StepContext& context) : replica_(context.replica) {}
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

std::atomic<int> slow_chunks{0}, chunks_when_sent{0};

class Slow : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("slow").input(payload::kImageChunk).output(payload::kImageChunk); }
  Slow(const Params&, const StageSite&) {}
  void process(int, Packet packet, Output& output) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++slow_chunks;
    output.emit(0, std::move(packet));
  }
};

// Sends from a thread of its own, as a device does that has computed.
class Device : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("device").input(payload::kBatch).output(payload::kBatch).serial().stepwise();
  }
  Device(const Params&, const StageSite&) {}
  ~Device() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void process(int, Packet packet, Output& output) override {
    threads_.emplace_back([packet = std::move(packet), &output, hold = output.hold()]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      chunks_when_sent = slow_chunks.load();
      output.emit(0, std::move(packet));
    });
  }

 private:
  std::vector<std::thread> threads_;
};

class After : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("after").input(payload::kBatch).serial().stepwise(); }
  After(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override { most_before = std::max(most_before, slow_chunks - chunks_when_sent); }
  int most_before = 0;
};

TEST(Graph, GivesStepsTheNextThreadThatIsFree) {
  TestGraph test;
  test.add<CountingSource>("read", shuffled(128));
  test.add<Paint>("paint");
  test.add<Slow>("slow");
  test.add<CountingBatcher>("batch", table({{"size", number(16)}, {"buffers", number(4)}}));
  test.add<Device>("device");
  const After& after = test.add<After>("after");
  test.run({.threads = 1, .epochs = 2, .chunk = 1});
  EXPECT_LE(after.most_before, 2) << "chunks that went before a step, while up to 48 waited";
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
}

TEST(Figures, SayThatDataWasWaitedFor) {
  Line line(table({{"size", number(16)}, {"sleep_microseconds", number(20000)}}), table({{"size", number(4)}}));
  Graph& graph = line.test.make({});
  std::atomic<bool> arrived{false};
  line.log->on_batch = [&](const Packet&, Output&) { arrived = true; };
  graph.start(0, 1);
  double while_it_waits = 0;
  while (!arrived) {
    const double seconds = graph.figures().waited_for_data_seconds;
    if (!arrived) while_it_waits = seconds;
  }
  graph.wait();
  EXPECT_GT(while_it_waits, 0.0);
  EXPECT_GE(graph.figures().waited_for_data_seconds, while_it_waits);
}

TEST(Figures, SayThatAnotherRanksDataWereWaitedFor) {
  Line line(shuffled(8), table({{"size", number(8)}}));
  Graph& graph = line.test.make({});
  graph.on_step_ready([&](const Graph::StepReady& ready, const auto& answer) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    answer(Graph::StepAgreed::alone(ready));
  });
  graph.start(0, 1);
  graph.wait();
  EXPECT_GE(graph.figures().waited_for_ranks_seconds, 0.004);
}

TEST(Figures, CountAPacketThatIsUnderWayAsFarAsItHasCome) {
  Line line(shuffled(8), table({{"size", number(8)}}));
  Graph& graph = line.test.make({});
  double before = -1, after = -1;
  const auto busy = [&] {
    const std::vector<Graph::StageFigures> stages = graph.figures().stages;
    return std::ranges::find(stages, "log", &Graph::StageFigures::name)->busy_seconds;
  };
  line.log->on_batch = [&](const Packet&, Output&) {
    before = busy();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    after = busy();
  };
  graph.start(0, 1);
  graph.wait();
  EXPECT_LT(before, after - 0.009);
  EXPECT_GE(busy(), after) << "it is counted once";
}

TEST(Figures, SayThatAStepWasWaitedFor) {
  Line line(shuffled(16), table({{"size", number(8)}}));
  Graph& graph = line.test.make({});
  std::atomic<bool> at_the_gate{false};
  graph.on_step_ready([&](const Graph::StepReady& ready, const auto& answer) {
    answer(Graph::StepAgreed::alone(ready));
    if (ready.step == 1) at_the_gate = true;
  });
  line.log->on_batch = [&](const Packet& packet, Output&) {  // the first step ends when the second one's batch stands at the gate
    while (packet.sequence == 0 && !at_the_gate) std::this_thread::yield();
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
