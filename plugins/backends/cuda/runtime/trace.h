// When each queue of a replica did what, by the device's own clock: what a trace shows, and how much of the time it idled.
//
// MILLRACE_CUDA_PROFILE=1 says through the run when a replica ends: time by kind of work, the share of the time in which
// compute idled, the share of the copies that ran under compute, and for each layer the engines that the libraries chose.
// MILLRACE_CUDA_TRACE=FILE writes every piece as a
// trace that chrome://tracing and Perfetto open. Pieces may be taken by several threads. Both look at the first kMostSpans
// pieces; without them nothing is measured.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine.h"

namespace millrace::cuda {

// A piece of work in seconds from the first one's begin.
struct TraceSpan {
  std::string queue;  // "compute"
  std::string what;   // "forward"
  double begin = 0, end = 0;
};

// Pure: what the spans say.
struct TraceSummary {
  double seconds = 0;                                   // from the first begin to the last end
  double compute_idle = 0;                              // share of it in which queue "compute" had nothing to do
  double copies_hidden = 0;                             // share of queue "copy"'s time in which compute worked; 1 without copies
  std::vector<std::pair<std::string, double>> by_work;  // "compute: forward", seconds, in order of first appearance
};
// `warm_up`: so many pieces are left out at the begin, where libraries load and work is recorded.
TraceSummary summarise(const std::vector<TraceSpan>& spans, std::size_t warm_up);
std::string trace_json(const std::vector<TraceSpan>& spans, int device);

class StepTrace {
 public:
  static constexpr std::size_t kMostSpans = 16384;

  // Null where it was not asked for.
  static std::unique_ptr<StepTrace> from_environment(Machine& machine);
  StepTrace(Machine& machine, bool print, std::string file) : machine_(machine), print_(print), file_(std::move(file)) {}
  // What is submitted to a queue while this lives is one piece. It is an NVTX range too, for Nsight Systems. One thread.
  class Piece {
   public:
    Piece(StepTrace* trace, Queue& queue, std::string name, const char* what);  // null: nothing is measured
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

  std::vector<TraceSpan> spans() const;  // REQUIRES: the work is done
  // Says and writes what was asked for. `engines`: said with the rest.
  void finish(const std::string& engines) const noexcept;

 private:
  bool begin_piece();  // false: enough has been looked at
  struct Taken {
    std::string queue;
    const char* what;
    Ref<Mark> begin, end;
  };
  Machine& machine_;
  const bool print_;
  const std::string file_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<Taken> taken_;
  std::size_t begun_ = 0;
};

}  // namespace millrace::cuda
