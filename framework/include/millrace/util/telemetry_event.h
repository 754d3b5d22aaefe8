// What stages, edges and devices have done: told to observers that override telemetry().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/util/telemetry.h"

namespace millrace {

// What one stage, or one instance of a stage that each replica has, did since its graph was made.
struct StageTelemetry {
  std::string name;
  int replica = -1;        // of this process, from 0; -1: all replicas share it
  bool on_device = false;  // process() submits and returns: device_seconds is the work, busy_seconds the submitting
  std::uint64_t packets = 0, samples = 0;
  double counted_at = 0;      // on_device: elapsed_seconds when the last of `samples` were complete; 0: none were
  double busy_seconds = 0;    // of threads inside process(), summed over threads
  double device_seconds = 0;  // of allreduce: from the last replica's gradients to their sum
  // Which threads run it: "io" (I/O threads), "workers" (any data threads), "one" (a data thread at a time).
  std::string threads;
  double computing_seconds = 0;     // of busy_seconds; the rest its threads waited for a lock, a disk or a processor. By samples
  std::uint64_t bytes = 0;          // of samples, as they came: encoded, or pixels; of a source: as it read them
  std::vector<ServiceBin> service;  // how many samples took how long
};

// One edge of a graph.
struct EdgeTelemetry {
  std::string from, to;  // stages
  std::uint64_t packets = 0;
  double waited_seconds = 0;  // of packets, summed: from being sent to being processed
  std::int64_t level = 0;     // packets that wait now
};

// One replica's device since it was compiled for, other graphs included. What a backend does not measure is 0. The device is idle
// for the rest of the time (elapsed_seconds). Devices that do several of these at once count each.
struct DeviceTelemetry {
  std::string name;                  // "cpu:0", "cuda:1"
  int replica = 0, rank = 0;         // of the run, from 0
  double compute_seconds = 0;        // forward, backward, losses and updates
  double copy_seconds = 0;           // batches: brought to the device, normalised and laid out
  double communication_seconds = 0;  // it waited for sums of gradients, with nothing else to do
  std::size_t memory_bytes = 0;      // planned
  double update_seconds = 0;         // of compute_seconds
};

// The main graph stood still, so that something else could be done: another graph, by its name, "checkpoint", "compare_replicas",
// "observers".
struct StandstillTelemetry {
  std::string what;
  double seconds = 0;
};

// What a graph's parts have done since it was made, told some times a second while the main graph runs, and once at its end. All
// are sums: a rate is the difference of two events. One that an observer has not taken yet is replaced by the next.
struct TelemetryEvent {
  std::string graph;
  std::uint64_t step = 0;  // done
  double seconds = 0;      // that the main graph has run in this process, other graphs apart
  std::vector<StageTelemetry> stages;
  std::vector<EdgeTelemetry> edges;
  std::vector<DeviceTelemetry> devices;
  double waited_for_data_seconds = 0,
         waited_for_step_seconds = 0;    // in front of the step: a device had no batch; a batch no device
  int data_threads = 0, io_threads = 0;  // that the stages before the step share
  std::size_t resident_bytes = 0;        // of the process
  std::string bottleneck;  // of the last seconds, for a line: "decode_image 61 %, device idle 40 %"; empty: not known yet
  double elapsed_seconds = 0;
  double waited_for_credit_seconds = 0;  // the source had samples to read, and no batch was free
  double waited_for_ranks_seconds = 0;   // this rank had a batch for the step, and another one had none
  std::vector<StandstillTelemetry> stood_still;
};

}  // namespace millrace
