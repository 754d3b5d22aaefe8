// The framework's cost per packet and stage, compared with a bare oneTBB function_node in the same run.
//
// Both sides: one node repeatedly sends 4096 packets into a chain of 8 stages that only forward them. The bare chain consists of
// function_nodes joined by edges; ours is a Graph, with its counters, time stamps and error handling. The bare chain's packet has
// the same size, but no reference count.
//
//   ninja -C build graph_overhead && build/bin/graph_overhead [pairs]
#include <fmt/format.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "testkit/graph_fixture.h"
#include "testkit/stages.h"

namespace {

using namespace millrace;

constexpr int kStages = 8, kPackets = 4096, kRounds = 20;

struct Cost {
  double processor = 0, wall = 0;  // nanoseconds per packet and stage; processor time summed over threads
};

Cost now() {
  const auto read = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
  };
  return {read(CLOCK_PROCESS_CPUTIME_ID), read(CLOCK_MONOTONIC)};
}

Cost cost_since(const Cost& start) {
  constexpr double kHops = double{kRounds} * kPackets * kStages;
  const Cost end = now();
  return {(end.processor - start.processor) / kHops, (end.wall - start.wall) / kHops};
}

// Sends kPackets into the chain for each batch, and forwards the batch.
class Pump : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("pump").input(payload::kImageChunk).output(payload::kImageChunk).output("Nothing", "chain");
  }
  Pump(const Params&, const StageSite&) {}
  void process(int, Packet packet, Output& output) override {
    for (int i = 0; i < kPackets; ++i) output.emit(1, packet);
    output.emit(0, std::move(packet));
  }
};

class Pass : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("pass").input("Nothing").output("Nothing"); }
  Pass(const Params&, const StageSite&) {}
  void process(int, Packet packet, Output& output) override { output.emit(0, std::move(packet)); }
};

Cost ours(int threads, bool serial) {
  testkit::TestGraph test;
  test.add<testkit::CountingSource>("read", testkit::table({{"size", Value(std::int64_t{kRounds})}}));
  test.add<testkit::Paint>("paint");
  test.add<Pump>("pump");
  for (int i = 0; i < kStages; ++i) {
    StageType type = StageTypeAccess::make<Pass>();
    if (serial) type.concurrency = Concurrency::serial;
    test.add("pass" + std::to_string(i), type);
  }
  test.add<testkit::CountingBatcher>(
      "batch", testkit::table({{"size", Value(std::int64_t{1})}, {"buffers", Value(std::int64_t{1})}}));
  Graph& graph = test.make({.threads = threads, .io_threads = 1, .epochs = 1, .chunk = 1});
  const Cost start = now();
  graph.start(0, kRounds);
  graph.wait();
  return cost_since(start);
}

struct Plain {
  std::uint64_t words[7];
};

Cost bare(int threads, bool serial) {
  using namespace tbb::flow;
  const tbb::global_control parallelism(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads) + 1);
  tbb::task_arena arena(threads, 0);
  std::unique_ptr<graph> g;
  arena.execute([&] { g = std::make_unique<graph>(); });
  std::vector<std::unique_ptr<function_node<Plain, Plain>>> chain;
  for (int i = 0; i < kStages; ++i) {
    chain.push_back(std::make_unique<function_node<Plain, Plain>>(*g, serial ? tbb::flow::serial : unlimited,
                                                                  [](const Plain& packet) { return packet; }));
    if (i > 0) make_edge(*chain[static_cast<std::size_t>(i) - 1], *chain[static_cast<std::size_t>(i)]);
  }
  function_node<int> pump(*g, unlimited, [&](int) {
    for (int i = 0; i < kPackets; ++i) chain[0]->try_put(Plain{});
  });
  const Cost start = now();
  for (int round = 0; round < kRounds; ++round) {
    pump.try_put(round);
    g->wait_for_all();
  }
  return cost_since(start);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Compared {
  double bare, ours, ratio;
};

Compared compare(const std::vector<Cost>& theirs, const std::vector<Cost>& mine, double Cost::*figure) {
  std::vector<double> a, b, ratios;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    a.push_back(theirs[i].*figure);
    b.push_back(mine[i].*figure);
    ratios.push_back(b.back() / a.back());
  }
  return {median(a), median(b), median(ratios)};
}

}  // namespace

int main(int argc, char** argv) {
  const int pairs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  fmt::print("ns per packet and stage; medians of {} pairs\n", pairs);
  fmt::print("{:<9} {:>7} | {:>9} {:>9} {:>6} | {:>9} {:>9} {:>6}\n", "stages", "threads", "bare, CPU", "ours", "ratio", "bare, wall",
             "ours", "ratio");
  for (const bool serial : {false, true}) {
    for (const int threads : {1, 2}) {
      std::vector<Cost> theirs, mine;
      for (int pair = 0; pair < pairs; ++pair) {
        theirs.push_back(bare(threads, serial));
        mine.push_back(ours(threads, serial));
      }
      const Compared processor = compare(theirs, mine, &Cost::processor), wall = compare(theirs, mine, &Cost::wall);
      fmt::print("{:<9} {:>7} | {:>9.1f} {:>9.1f} {:>6.2f} | {:>10.1f} {:>9.1f} {:>6.2f}\n", serial ? "serial" : "parallel",
                 threads, processor.bare, processor.ours, processor.ratio, wall.bare, wall.ours, wall.ratio);
    }
  }
}
