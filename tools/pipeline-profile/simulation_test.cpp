#include "simulation.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// Nothing waits unless a test makes it slow.
SimulatedGraph free_graph() {
  SimulatedGraph graph;
  graph.cores = 16;
  graph.data = {.io_threads = 2, .threads = 4, .batch = 64, .chunk = 8, .buffers = 4, .stages = {{"decode", 1e-6}}};
  return graph;
}

double rate(const SimulatedGraph& graph) { return simulate(graph).images_per_second; }

#define EXPECT_RATE(graph, expected) EXPECT_NEAR(rate(graph) / (expected), 1, 0.03)

TEST(Simulation, OfOneSlowStageIsThreadsByItsTime) {
  SimulatedGraph graph = free_graph();
  graph.data.stages.front().seconds = 2e-3;
  EXPECT_RATE(graph, 4 / 2e-3);
  graph.data.spread = 0.5;  // chunks of other sizes average out over the current batches
  EXPECT_NEAR(rate(graph) / (4 / 2e-3), 1, 0.05);
  graph.data.stages.front().serial = true;
  EXPECT_RATE(graph, 1 / 2e-3);
}

TEST(Simulation, OfSlowStorageIsIoThreadsByItsLatency) {
  SimulatedGraph graph = free_graph();
  graph.data.storage_seconds = 10e-3;
  EXPECT_RATE(graph, 2 / 10e-3);
  graph.data.io_threads = 6;
  EXPECT_RATE(graph, 6 / 10e-3);
}

TEST(Simulation, OfASlowDeviceIsItsBatchesByTheTimeOfOne) {
  SimulatedGraph graph = free_graph();
  graph.step = {.replicas = 1, .fixed_seconds = 5e-3, .sample_seconds = 1e-3, .update_seconds = 3e-3};
  EXPECT_RATE(graph, 64 / (5e-3 + 64e-3 + 3e-3));
  graph.step.replicas = 2;  // each computes half of a batch
  EXPECT_RATE(graph, 64 / (5e-3 + 32e-3 + 3e-3));
  graph.step.load = {1, 3};  // the step is over when the slower one is done
  EXPECT_RATE(graph, 64 / (5e-3 + 48e-3 + 3e-3));
}

TEST(Simulation, HidesSumsBehindTheComputationOfOtherBuckets) {
  SimulatedGraph graph = free_graph();
  graph.step = {.replicas = 2, .sample_seconds = 2e-3, .buckets = {{0.5, 20e-3}, {1, 4e-3}}};
  EXPECT_RATE(graph, 64 / (64e-3 + 4e-3));  // only the last sum causes a wait
  graph.step.buckets = {{0.5, 60e-3}, {1, 4e-3}};
  EXPECT_RATE(graph, 64 / (32e-3 + 60e-3 + 4e-3));
}

TEST(Simulation, SharesTheCoresAmongAllThatCompute) {
  SimulatedGraph graph = free_graph();
  graph.cores = 2;
  graph.data.threads = 2;
  graph.data.stages.front().seconds = 1e-3;
  graph.step = {.replicas = 1, .device_threads = 2, .cores = {{0, 1}}, .sample_seconds = 1e-3};
  EXPECT_RATE(graph, 2 / (1e-3 + 2 * 1e-3));  // core seconds per sample: one of a data thread, two of the device
  EXPECT_NEAR(simulate(graph).core_busy, 1, 0.02);
  graph.other_threads = 4;  // other programs take their part
  EXPECT_LT(rate(graph), 0.55 * 2 / 3e-3);
}

// Two cores, batches of 32 images with 1 ms of data stages each, and replicas whose threads stay on their cores.
SimulatedGraph two_cores(int data_threads, double step_seconds) {
  SimulatedGraph graph;
  graph.cores = 2;
  graph.data = {.threads = data_threads, .batch = 32, .chunk = 1, .buffers = 3, .stages = {{"decode", 1e-3}}};
  graph.step = {.replicas = 2, .device_threads = 1, .cores = {{0}, {1}}, .sample_seconds = step_seconds / 16};
  return graph;
}

// The other replica ends first. Its core then takes the data thread if that is waiting, which it is every second time: so the
// data thread has half a core for 1.5 times a step's time.
TEST(Simulation, OfOneDataThreadLeavesACoreIdleBesideAReplicaThatStays) {
  EXPECT_RATE(two_cores(1, 20e-3), 32 / (32e-3 + 0.75 * 20e-3));
  EXPECT_RATE(two_cores(1, 10e-3), 32 / (32e-3 + 0.75 * 10e-3));
}

TEST(Simulation, OfAThreadForEachCoreLeavesNoneIdle) {
  EXPECT_RATE(two_cores(2, 20e-3), 32 / (16e-3 + 20e-3));
  EXPECT_NEAR(simulate(two_cores(2, 20e-3)).core_busy, 1, 0.02);
}

TEST(Simulation, OfATeamWaitsForItsSlowestThread) {
  SimulatedGraph graph = two_cores(1, 20e-3);
  graph.step = {.replicas = 1, .device_threads = 2, .cores = {{0, 1}}, .sample_seconds = 20e-3 / 32};
  EXPECT_RATE(graph, 32 / (32e-3 + 20e-3));  // the data thread has half a core for twice a step's time
  graph.step.device_threads = 1;             // the other thread of the team sleeps
  EXPECT_GT(rate(graph), 32 / (32e-3 + 1e-3));
}

TEST(Simulation, OfMoreReplicasThanCoresHasThemTakeTurns) {
  SimulatedGraph graph = two_cores(2, 20e-3);
  graph.step.replicas = 4;
  graph.step.cores = {{0}, {1}, {0}, {1}};
  EXPECT_RATE(graph, 32 / (16e-3 + 20e-3));
}

TEST(Simulation, KeepsDataThreadsOnTheCoresThatTheyHave) {
  SimulatedGraph graph = free_graph();
  graph.data.stages.front().seconds = 2e-3;
  graph.data.cores = {3, 7};
  EXPECT_RATE(graph, 2 / 2e-3);
  graph.other_threads = 14;  // other programs use the other cores
  EXPECT_RATE(graph, 2 / 2e-3);
  graph.other_threads = 32;
  EXPECT_RATE(graph, 4 / 2e-3 / (36.0 / 16));  // four of our threads, and equally many on each core
}

// With one batch, the data stages stop while the device ingests it, and the device stops while it is filled.
TEST(Simulation, OfTooFewBatchesAddsUpWhatCouldGoOnTogether) {
  SimulatedGraph graph = free_graph();
  graph.data.stages.front().seconds = 1e-3;
  graph.data.threads = 1;
  graph.step = {.replicas = 1, .sample_seconds = 1e-3};
  graph.data.buffers = 3;
  EXPECT_RATE(graph, 1 / 1e-3);
  graph.data.chunk = 64;
  graph.data.threads = 4;  // a batch that is one chunk is the work of one thread
  graph.data.buffers = 1;
  EXPECT_RATE(graph, 1 / 1e-3);
  graph.data.chunk = 16;
  EXPECT_RATE(graph, 1 / 1e-3);
  graph.step.sample_seconds = 0.1e-3;
  EXPECT_RATE(graph, 1 / 0.25e-3);
}

TEST(Simulation, GivesTheSameForTheSameSeed) {
  SimulatedGraph graph = free_graph();
  graph.data.stages.front().seconds = 2e-3;
  graph.data.spread = 1;
  EXPECT_EQ(simulate(graph, 7).images_per_second, simulate(graph, 7).images_per_second);
  EXPECT_NE(simulate(graph, 7).images_per_second, simulate(graph, 8).images_per_second);
}

}  // namespace
}  // namespace millrace
