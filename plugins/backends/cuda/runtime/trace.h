// Records when each queue of a replica worked, by the device's clock: a trace, and the share of idle time.
//
// MILLRACE_CUDA_PROFILE=1 makes the run log, when a replica ends: time by kind of work, the share of the time in which compute
// idled, the share of the copies that overlapped with compute, and for each layer the engines chosen from the libraries.
// MILLRACE_CUDA_TRACE=FILE writes every piece as a trace for chrome://tracing and Perfetto. Pieces may be taken by several
// threads. Both cover the first kMaxSpans pieces; without them nothing is measured.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine.h"

namespace millrace::cuda {

// A piece of work in seconds, relative to the first one's begin.
struct TraceSpan {
  std::string queue;  // "compute"
  std::string what;   // "forward"
  double begin = 0, end = 0;
};

// Summary of spans; pure.
struct TraceSummary {
  double seconds = 0;                                   // from the first begin to the last end
  double compute_idle = 0;                              // share of it in which queue "compute" was idle
  double copies_hidden = 0;                             // share of queue "copy"'s time overlapped by compute; 1 without copies
  std::vector<std::pair<std::string, double>> by_work;  // "compute: forward", seconds, in order of first appearance
};
// `warm_up`: number of pieces to ignore at the beginning, when libraries load and work is recorded.
TraceSummary summarise(const std::vector<TraceSpan>& spans, std::size_t warm_up);
std::string trace_json(const std::vector<TraceSpan>& spans, int device);

class StepTrace {
 public:
  static constexpr std::size_t kMaxSpans = 16384;

  // Null if not requested.
  static std::unique_ptr<StepTrace> from_environment(Machine& machine);
  StepTrace(Machine& machine, bool print, std::string file) : machine_(machine), print_(print), file_(std::move(file)) {}
  // Work submitted to a queue while this lives is one piece. It is also an NVTX range, for Nsight Systems. Not thread-safe.
  class Piece {
   public:
    Piece(StepTrace* trace, Queue& queue, std::string name, const char* what);  // null: disabled
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    StepTrace* trace_;
    Queue& queue_;
    std::string name_;
    const char* what_;
    Ref<Mark> begin_;
  };

  std::vector<TraceSpan> spans() const;  // REQUIRES: the work is complete
  // Logs and writes the requested output. `engines`: logged with the rest.
  void finish(const std::string& engines) const noexcept;

 private:
  bool begin_piece();  // false: enough pieces were measured
  struct Taken {
    std::string queue;
    const char* what;
    Ref<Mark> begin, end;
  };
  Machine& machine_;
  const bool print_;
  const std::string file_;
  mutable std::mutex mutex_;  // guards the fields below
  std::vector<Taken> taken_;
  std::size_t begun_ = 0;
};

}  // namespace millrace::cuda
