// Takes a trace of this process: slices of time on tracks, one track for each thread and each device.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "millrace/util/trace.h"

namespace millrace {

// A TraceSlice that was kept. Times are nanoseconds of the steady clock, which all processes of a machine share.
struct TracedSlice {
  std::string graph, name, from, file;
  std::int64_t sent = 0, begin = 0, end = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0, slots = 0;
  std::int32_t replica = -1;
};

struct TraceTrack {
  std::string name;  // "worker 2", "io 1", "cpu:0"
  std::vector<TracedSlice> slices;
};

// Steps from 0; both included.
struct TraceSteps {
  std::uint64_t first = 0, last = std::numeric_limits<std::uint64_t>::max();
};

// Records from its making to stop(). Each thread keeps its newest kMostSlices slices, so memory is bounded however long it takes.
class Trace {
 public:
  static constexpr std::size_t kMostSlices = std::size_t{1} << 15;  // about 3 MB a thread

  explicit Trace(TraceSteps steps = {}, std::size_t most_slices = kMostSlices);  // REQUIRES: no other one records in this process
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void stop();
  std::vector<TraceTrack> tracks() const;  // in the order of names. REQUIRES: stop() was called
  std::uint64_t lost() const;              // older slices, for which there was no room

 private:
  struct Clock {
    std::uint64_t ticks = 0;
    std::int64_t nanoseconds = 0;
    static Clock now();
  };
  std::int64_t nanoseconds(std::uint64_t ticks) const;

  Clock begin_, end_;
};

// The trace in Chrome's JSON format, as Perfetto (ui.perfetto.dev) and chrome://tracing read it: tracks of slices, arrows that
// follow samples from their file to their step and each step from stage to stage, and counters of the packets on each edge.
// `rank` is the process of the viewer.
std::string trace_json(const std::vector<TraceTrack>& tracks, int rank);

}  // namespace millrace
