// Explains a pipeline's speed: turns its telemetry into rows, a bottleneck and possible improvements. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observer.h"
#include "run/bottleneck.h"

namespace millrace {

// Times are seconds, rates are per second, shares are of the measured time.
struct Profile {
  struct Stage {
    std::string name;                   // "decode_image", "forward_backward[1]"
    std::string on;                     // "io", "workers", "one" (one data thread at a time), "device"
    double here = 0;                    // samples, in this run
    double alone = 0;                   // samples of one thread, or of the device, if it never waits; 0 if it handles no samples
    double mean = 0, p50 = 0, p99 = 0;  // per sample
    double busy = 0;                    // average number of threads in it, or the share of time in which the device works for it
    double cores = 0;                   // the part of `busy` that computes, without waiting for a lock, a disk or a processor
    double bytes = 0;                   // incoming samples' bytes per second
    double starved = 0;                 // share of measurements in which it was idle: it waits for earlier stages
    double waits_for_credit = 0;        // for the source: share in which no batch was free
    double wait = 0;                    // average wait of a packet before it
    double level = 0;                   // average number of packets before it
    double packets = 0;
  };
  // A replica's device. Values that a backend does not measure are 0.
  struct Device {
    std::string name;  // "cuda:0", or with the replica if there are several, "cpu:0[1]"
    int rank = 0;
    double forward_backward = 0, update = 0, copy = 0, sums = 0, idle = 0;  // shares
    double memory = 0;                                                      // planned bytes
  };
  // Averages over a rank's devices. Empty if there is one rank.
  struct Rank {
    int rank = 0;
    int devices = 0;
    double computing = 0, sums = 0, idle = 0;  // shares; `computing`: includes copies
    double memory = 0;                         // planned bytes, over all of them
  };
  // The sequential waits and work of a step: from the read of its first samples to its last update.
  struct Part {
    std::string name;
    double wait = 0, work = 0;  // per packet, on average
  };
  // A possible improvement: images per second with a changed resource, by Amdahl's law on the measured service times.
  struct Gain {
    std::string change;  // "one more data thread"
    double rate = 0;
    std::string then;  // the limit then
  };

  std::string file, graph;
  double seconds = 0, rate = 0;  // measured seconds; images per second
  std::uint64_t steps = 0;
  int data_threads = 0, io_threads = 0, cores = 0;
  Bottleneck bottleneck;
  std::vector<Gain> gains;  // largest first
  std::vector<Stage> stages;
  std::vector<Device> devices;
  std::vector<Rank> ranks;
  std::vector<Part> path;
  double waited_for_data = 0, waited_for_step = 0;  // shares: no batch for the device; no device for a batch
};

// Makes a profile from measurements of a run. Not thread-safe.
class ProfileBuilder {
 public:
  // `core_seconds`: core time of the process; 0 if unknown.
  void add(const TelemetryEvent& event, double core_seconds = 0);
  // From the end of the first step, which is slower than the others, to the last measurement. Empty names: no data. `part`: the
  // measured rank's share of a step's images. Rates of the run cover all ranks, rates of stages this one.
  Profile build(int cores, double part = 1) const;

 private:
  struct Of {
    double level = 0;        // packets in incoming edges, summed over measurements
    std::uint64_t idle = 0;  // measurements with nothing waiting and no progress since the last one
  };
  // A device of another rank, which reports once a second: its first and last report, and their times. A share of another
  // interval could exceed 1.
  struct Reported {
    DeviceTelemetry first, last;
    double first_at = 0, last_at = 0;
  };
  void add_device(const DeviceTelemetry& device, double at);
  std::vector<Profile::Device> devices(const TelemetryEvent& done) const;

  TelemetryEvent first_, last_;
  std::map<std::pair<int, int>, Reported> others_;  // by rank and replica
  double first_core_seconds_ = 0, last_core_seconds_ = 0;
  std::vector<Of> stages_;
  std::uint64_t polls_ = 0;
};

// The images per second that each resource alone allows.
struct Capacity {
  enum class Kind { io, workers, serial, device, cores };
  Kind kind = Kind::io;
  std::string name;  // "the 2 I/O threads", "batch", "cpu:0", "the 2 cores"
  double rate = 0;
  double of_one = 0;  // rate of one more of it
};
struct Cores {
  int count = 1;
  double seconds = 0;  // core time of the process on them; 0 if unknown
};
std::vector<Capacity> capacities(const TelemetryEvent& done, const Cores& cores);
std::vector<Profile::Gain> gains(const TelemetryEvent& done, const Bottleneck& bottleneck, double rate, const Cores& cores);

}  // namespace millrace
