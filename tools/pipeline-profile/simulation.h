// Predicts a graph's speed: a discrete-event simulation of its batches, threads and devices, following graph/.
//
//   SimulatedGraph graph;
//   graph.cores = graph.data.threads = 4;
//   graph.data.stages = {{"decode_image", 2e-3}};   // 2 ms of a core for each image
//   simulate(graph).images_per_second;              // about 2000
//
// A fixed number of batches circulates. I/O threads fill a free one chunk by chunk, data threads carry each chunk through the
// stages, and a gate lets complete batches through in order. Each replica computes its share of a batch, bucket by bucket; a
// bucket is summed when every replica has filled it, one after the other; then the replicas update.
//
// Threads that want the same core share it equally. Those of replicas stay on theirs, and wait for the slowest of their replica.
// Data and I/O threads go to an idle core when they wake, and to one that becomes idle while they wait.
//
// Not simulated: caches, memory bandwidth, clocks that change with load, bad samples, and pauses between epochs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct SimulatedStage {
  std::string name;
  double seconds = 0;   // core time per sample
  bool serial = false;  // one thread at a time
};

struct SimulatedData {
  int io_threads = 2, threads = 1;
  std::uint32_t batch = 1, chunk = 1, buffers = 3;
  double read_seconds = 0;                  // core time per sample
  double storage_seconds = 0;               // an I/O thread's wait per sample
  std::vector<SimulatedStage> stages = {};  // in flow order
  double spread = 0;                        // standard deviation / mean of the work per sample
  std::vector<int> cores = {};              // for its threads; empty: all
};

struct SimulatedBucket {
  double ready = 1;           // the fraction of the computation after which it is filled, ascending
  double reduce_seconds = 0;  // until its sum is complete
};

struct SimulatedStep {
  int replicas = 0;                           // 0: the graph ends with its batches
  std::vector<double> load = {};              // by replica; empty: equal
  double device_threads = 0;                  // average host threads that a replica computes with; 0 if it has its own device
  std::vector<std::vector<int>> cores = {};   // by replica: one core for each of its threads, if any
  double fixed_seconds = 0;                   // per replica, independent of its share of the batch
  double sample_seconds = 0;                  // per replica and sample of its share
  double update_seconds = 0;                  // after the last sum
  double submit_seconds = 0;                  // data thread's time, per replica and step
  double spread = 0;                          // standard deviation / mean of a replica's step
  std::vector<SimulatedBucket> buckets = {};  // empty: one, at the end, at no cost
  bool sums_wait = false;                     // sums take network time, but no core
  bool submits_ahead = false;                 // the next step may be submitted once this one is, as on a GPU
};

struct SimulatedGraph {
  int cores = 1;
  double other_threads = 0;  // average threads of other programs that want a core
  SimulatedData data;
  SimulatedStep step;
};

struct Simulated {
  double images_per_second = 0;
  // Shares of the time.
  double io_busy = 0;      // I/O threads
  double data_busy = 0;    // data threads
  double core_busy = 0;    // cores, by this program
  double device_busy = 0;  // devices, including waits for sums
};

// Simulates `steps` steps; the first quarter is not measured. Equal arguments give equal results.
Simulated simulate(SimulatedGraph graph, std::uint64_t seed = 1, std::uint64_t steps = 200);

}  // namespace millrace
