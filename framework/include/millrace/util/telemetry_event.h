// Activity of stages, edges and devices, sent to observers that override telemetry().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/util/telemetry.h"

namespace millrace {

// Activity of one stage, or of one replica's instance of it, since its graph was made.
struct StageTelemetry {
  std::string name;
  int replica = -1;        // in this process, from 0; -1: shared by all replicas
  bool on_device = false;  // process() submits and returns: device_seconds is the work, busy_seconds the submission
  std::uint64_t packets = 0, samples = 0;
  double counted_at = 0;      // on_device: elapsed_seconds when the last of `samples` were complete; 0: none yet
  double busy_seconds = 0;    // time inside process(), summed over threads
  double device_seconds = 0;  // for allreduce: from the last replica's gradients to their sum
  // Threads that run it: "io" (I/O threads), "workers" (any data threads), "one" (a data thread at a time).
  std::string threads;
  // Part of busy_seconds; for the rest, threads waited for a lock, a disk or a processor. Measured by samples.
  double computing_seconds = 0;
  std::uint64_t bytes = 0;          // of arriving samples, encoded or pixels; for a source: bytes read
  std::vector<ServiceBin> service;  // histogram of time per sample
};

// One edge of a graph.
struct EdgeTelemetry {
  std::string from, to;  // stages
  std::uint64_t packets = 0;
  double waited_seconds = 0;  // summed over packets, from sending to processing
  std::int64_t level = 0;     // packets waiting now
};

// One replica's device since it was compiled for, including other graphs. Values that a backend does not measure are 0. For the
// rest of the time (elapsed_seconds) the device is idle. Overlapping kinds of work each count.
struct DeviceTelemetry {
  std::string name;                  // "cpu:0", "cuda:1"
  int replica = 0, rank = 0;         // in the run, from 0
  double compute_seconds = 0;        // forward, backward, losses and updates
  double copy_seconds = 0;           // batches: transferred to the device, normalised and laid out
  double communication_seconds = 0;  // idle while waiting for summed gradients
  std::size_t memory_bytes = 0;      // planned
  double update_seconds = 0;         // part of compute_seconds
};

// Time for which the main graph paused for something else: another graph, by its name, "checkpoint", "compare_replicas",
// "observers".
struct StandstillTelemetry {
  std::string what;
  double seconds = 0;
};

// Activity of a graph's parts since it was made, sent several times a second while the main graph runs, and once at its end. All
// values are sums: a rate is the difference of two events. An event that an observer has not taken yet is replaced by the next.
struct TelemetryEvent {
  std::string graph;
  std::uint64_t step = 0;  // done
  double seconds = 0;      // running time of the main graph in this process, without other graphs
  std::vector<StageTelemetry> stages;
  std::vector<EdgeTelemetry> edges;
  std::vector<DeviceTelemetry> devices;
  double waited_for_data_seconds = 0,
         waited_for_step_seconds = 0;    // before the step: a device had no batch; a batch had no device
  int data_threads = 0, io_threads = 0;  // shared by the stages before the step
  std::size_t resident_bytes = 0;        // of the process
  std::string bottleneck;  // over the last seconds, as text: "decode_image 61 %, device idle 40 %"; empty: not yet known
  double elapsed_seconds = 0;
  double waited_for_credit_seconds = 0;  // the source had samples to read, and no batch was free
  double waited_for_ranks_seconds = 0;   // this rank had a batch for the step, and another rank had none
  std::vector<StandstillTelemetry> stood_still;
};

}  // namespace millrace
