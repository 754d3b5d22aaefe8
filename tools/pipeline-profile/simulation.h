// How fast a graph would be: a discrete-event simulation of its batches, threads and devices, as graph/ moves them.
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
// Threads that want one core share it in equal parts. Those of replicas stay on theirs, and wait for the slowest of their
// replica. Data and I/O threads go to an idle core when they wake, and to one that falls idle while they wait.
//
// What is left out: caches, memory bandwidth, clocks that change with load, bad samples, and pauses between epochs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct SimulatedStage {
  std::string name;
  double seconds = 0;   // of a core, for one sample
  bool serial = false;  // one thread at a time
};

struct SimulatedData {
  int io_threads = 2, threads = 1;
  std::uint32_t batch = 1, chunk = 1, buffers = 3;
  double read_seconds = 0;                  // of a core, for one sample
  double storage_seconds = 0;               // for which an I/O thread waits, for one sample
  std::vector<SimulatedStage> stages = {};  // in flow order
  double spread = 0;                        // of the work for one sample: its standard deviation / its mean
  std::vector<int> cores = {};              // for its threads; empty: all
};

struct SimulatedBucket {
  double ready = 1;           // the part of the computation after which it is filled, ascending
  double reduce_seconds = 0;  // until its sum is there
};

struct SimulatedStep {
  int replicas = 0;               // 0: the graph ends with its batches
  std::vector<double> load = {};  // of the replicas; empty: equal
  double device_threads = 0;  // threads of the host's cores that a replica computes with, on average; 0: it has its own device
  std::vector<std::vector<int>> cores = {};   // of each replica's threads, where it has any: one for each
  double fixed_seconds = 0;                   // of a replica, whatever its share of the batch
  double sample_seconds = 0;                  // of a replica, for each sample of its share
  double update_seconds = 0;                  // after the last sum
  double submit_seconds = 0;                  // of a data thread, for a replica's step
  double spread = 0;                          // of a replica's step: standard deviation / mean
  std::vector<SimulatedBucket> buckets = {};  // empty: one, at the end, that costs nothing
  bool sums_wait = false;                     // sums take a network's time, and no core
  bool submits_ahead = false;                 // the next step may be submitted when this one has been, as to a GPU
};

struct SimulatedGraph {
  int cores = 1;
  double other_threads = 0;  // of other programs: how many want a core on average
  SimulatedData data;
  SimulatedStep step;
};

struct Simulated {
  double images_per_second = 0;
  // Shares of the time.
  double io_busy = 0;      // of I/O threads
  double data_busy = 0;    // of data threads
  double core_busy = 0;    // of cores, by this program
  double device_busy = 0;  // of devices, waiting for sums included
};

// `steps` are simulated, of which the first quarter is not measured. Equal arguments give equal results.
Simulated simulate(SimulatedGraph graph, std::uint64_t seed = 1, std::uint64_t steps = 200);

}  // namespace millrace
