// Output about when each queue of a replica worked (device_meter.h): a trace, and the share of idle time.
//
// MILLRACE_CUDA_PROFILE=1 makes the run log, when a replica ends: time by kind of work, the share of the time in which compute
// idled, the share of the copies that overlapped with compute, and for each layer the engines chosen from the libraries.
// MILLRACE_CUDA_TRACE=FILE writes every piece as a trace for chrome://tracing and Perfetto. Both cover the first kMaxSpans
// pieces.
#pragma once

#include <string>
#include <vector>

#include "device_meter.h"

namespace millrace::cuda {

// Summary of spans; pure.
struct TraceSummary {
  double seconds = 0;                                   // from the first begin to the last end
  double compute_idle = 0;                              // share of it in which queue "compute" was idle
  double copies_hidden = 0;                             // share of queue "copy"'s time overlapped by compute; 1 without copies
  std::vector<std::pair<std::string, double>> by_work;  // "compute: forward", seconds, in order of first appearance
};
// `warm_up`: number of pieces to ignore at the beginning, when libraries load and work is recorded.
TraceSummary summarise(const std::vector<WorkSpan>& spans, std::size_t warm_up);
std::string trace_json(const std::vector<WorkSpan>& spans, int device);

// What the environment requests.
struct TraceRequest {
  static constexpr std::size_t kMaxSpans = 16384;

  bool prints = false;
  std::string file;  // empty: none

  static TraceRequest from_environment();  // throws Error(usage)
  bool wants_spans() const { return prints || !file.empty(); }
  // Logs and writes the requested output. `engines`: logged with the rest.
  void finish(Machine& machine, const std::vector<WorkSpan>& spans, const std::string& engines) const noexcept;
};

}  // namespace millrace::cuda
