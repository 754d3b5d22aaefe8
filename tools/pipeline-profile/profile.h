// Why a pipeline is as fast as it is: from what its telemetry says to rows, a bottleneck and what would move it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observer.h"
#include "run/bottleneck.h"

namespace millrace {

// Times are seconds, rates are a second, shares are of the time that was looked at.
struct Profile {
  struct Stage {
    std::string name;                   // "decode_image", "forward_backward[1]"
    std::string on;                     // "io", "workers", "one" (a data thread at a time), "device"
    double here = 0;                    // samples, in this run
    double alone = 0;                   // samples of one thread, or of the device, that never waits; 0: it handles no samples
    double mean = 0, p50 = 0, p99 = 0;  // of one sample
    double busy = 0;                    // threads in it on average, or the share of time in which the device is at work for it
    double cores = 0;                   // of `busy`: threads that compute, and do not wait for a lock, a disk or a processor
    double bytes = 0;                   // of samples as they come, a second
    double starved = 0;                 // share of looks in which it had nothing to do: it waits for what is before it
    double waits_for_credit = 0;        // of the source: share in which no batch was free
    double wait = 0;                    // of a packet in front of it, on average
    double level = 0;                   // packets in front of it, on average
    double packets = 0;
  };
  // A replica's device. What a backend does not measure is 0.
  struct Device {
    std::string name;  // "cuda:0", and of several "cpu:0[1]", with the replica
    int rank = 0;
    double forward_backward = 0, update = 0, copy = 0, sums = 0, idle = 0;  // shares
    double memory = 0;                                                      // planned bytes
  };
  // The devices of a rank, on average. Empty where there is one rank.
  struct Rank {
    int rank = 0;
    int devices = 0;
    double computing = 0, sums = 0, idle = 0;  // shares; `computing`: with copies
    double memory = 0;                         // planned bytes, of all of them
  };
  // What a step waits for and works on, one after the other: from the read of its first samples to its last update.
  struct Part {
    std::string name;
    double wait = 0, work = 0;  // of a packet, on average
  };
  // What could be had: images a second with a resource changed, by Amdahl's law on the measured service times.
  struct Gain {
    std::string change;  // "one more data thread"
    double rate = 0;
    std::string then;  // what bounds it then
  };

  std::string file, graph;
  double seconds = 0, rate = 0;  // looked at; images a second
  std::uint64_t steps = 0;
  int data_threads = 0, io_threads = 0, cores = 0;
  Bottleneck bottleneck;
  std::vector<Gain> gains;  // the largest first
  std::vector<Stage> stages;
  std::vector<Device> devices;
  std::vector<Rank> ranks;
  std::vector<Part> path;
  double waited_for_data = 0, waited_for_step = 0;  // shares: no batch for the device; no device for a batch
};

// Makes a profile of looks at a run. One thread.
class ProfileBuilder {
 public:
  // `core_seconds`: that the process has computed; 0: not known.
  void add(const TelemetryEvent& event, double core_seconds = 0);
  // From the end of the first step on, which is slower than the others, to the last look. Empty names: nothing was seen.
  // `part`: of the images of a step, those of the rank that was looked at. Rates of the run are those of all ranks, rates of
  // stages those of this one.
  Profile build(int cores, double part = 1) const;

 private:
  struct Of {
    double level = 0;        // of edges in front, summed over looks
    std::uint64_t idle = 0;  // looks in which nothing was in front and nothing was done since the last one
  };
  // A device of another rank, which tells of it once a second: what it said first and last, and when that was heard. A share of
  // another time could be above 1.
  struct Told {
    DeviceTelemetry first, last;
    double first_at = 0, last_at = 0;
  };
  void hear(const DeviceTelemetry& device, double at);
  std::vector<Profile::Device> devices(const TelemetryEvent& done) const;

  TelemetryEvent first_, last_;
  std::map<std::pair<int, int>, Told> others_;  // by rank and replica
  double first_core_seconds_ = 0, last_core_seconds_ = 0;
  std::vector<Of> stages_;
  std::uint64_t looks_ = 0;
};

// The images a second that each resource could carry, alone.
struct Capacity {
  enum class Kind { io, workers, serial, device, cores };
  Kind kind = Kind::io;
  std::string name;  // "the 2 I/O threads", "batch", "cpu:0", "the 2 cores"
  double rate = 0;
  double of_one = 0;  // of one more of it
};
struct Cores {
  int count = 1;
  double seconds = 0;  // that the process computed on them; 0: not known
};
std::vector<Capacity> capacities(const TelemetryEvent& done, const Cores& cores);
std::vector<Profile::Gain> gains(const TelemetryEvent& done, const Bottleneck& bottleneck, double rate, const Cores& cores);

}  // namespace millrace
