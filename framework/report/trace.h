// Records a trace of this process: time slices on tracks, one track for each thread and each device.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "millrace/util/trace.h"

namespace millrace {

// A recorded TraceSlice. Times are nanoseconds of the steady clock, which all processes of a machine share.
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

// Steps from 0, inclusive.
struct TraceSteps {
  std::uint64_t first = 0, last = std::numeric_limits<std::uint64_t>::max();
};

// Records from construction to stop(). Each thread keeps its newest kMaxSlices slices, so memory is bounded.
class Trace {
 public:
  static constexpr std::size_t kMaxSlices = std::size_t{1} << 15;  // about 3 MB per thread

  // REQUIRES: no other trace is recording in this process.
  explicit Trace(TraceSteps steps = {}, std::size_t most_slices = kMaxSlices);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void stop();
  std::vector<TraceTrack> tracks() const;  // ordered by name. REQUIRES: stop() was called
  std::uint64_t lost() const;              // number of older slices dropped for lack of space

 private:
  struct Clock {
    std::uint64_t ticks = 0;
    std::int64_t nanoseconds = 0;
    static Clock now();
  };
  std::int64_t nanoseconds(std::uint64_t ticks) const;

  Clock begin_, end_;
};

// The trace in Chrome's JSON format for Perfetto (ui.perfetto.dev) and chrome://tracing: tracks of slices, arrows that follow
// samples from their file to their step and each step from stage to stage, and counters of the packets on each edge. `rank`
// becomes the viewer's process number.
std::string trace_json(const std::vector<TraceTrack>& tracks, int rank);

}  // namespace millrace
