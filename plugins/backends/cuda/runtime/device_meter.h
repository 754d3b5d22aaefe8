// Measures when a replica's queues worked, by the device's clock: how long by kind of work, and each piece for a trace. Every
// measurement on a device is made by it, with two marks per piece. Nothing waits for it: a piece counts when it is found to be
// complete.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "machine.h"
#include "millrace/backend/device_times.h"

namespace millrace::cuda {

// A piece of work in seconds, relative to the first one's begin.
struct WorkSpan {
  std::string queue;  // "compute"
  std::string what;   // "forward"
  double begin = 0, end = 0;
};

// Thread-safe.
class DeviceMeter {
 public:
  // `most_spans`: this many pieces are kept one by one, for spans(). 0: only times() is available.
  explicit DeviceMeter(Machine& machine, std::size_t most_spans = 0) : machine_(machine), most_spans_(most_spans) {}

  // Work submitted to `queue` while this lives is one piece, and adds to a member of DeviceTimes (null: to none). It is also an
  // NVTX range, for Nsight Systems. Not within a recording. `meter`: null: disabled. REQUIRES: the queue outlives the meter's
  // use.
  class Piece {
   public:
    Piece(DeviceMeter* meter, Queue& queue, const std::string& name, const char* what, double DeviceTimes::*kind = nullptr);
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    DeviceMeter* meter_;
    Queue& queue_;
    double DeviceTimes::*const kind_;
    std::string name_;  // empty: not kept
    const char* const what_;
    Ref<Mark> begin_;
  };

  DeviceTimes times();
  std::vector<WorkSpan> spans();  // by begin; waits for the pieces

 private:
  struct Submitted {
    double DeviceTimes::*kind;
    std::string name;
    const char* what;
    Ref<Mark> begin, end;
  };
  bool keeps_another();
  void count_complete();  // REQUIRES: mutex_ is held

  Machine& machine_;
  const std::size_t most_spans_;
  std::mutex mutex_;                                         // guards the fields below
  std::map<const Queue*, std::deque<Submitted>> submitted_;  // a queue's pieces complete in order
  DeviceTimes times_;
  std::size_t begun_ = 0;
  Ref<Mark> origin_;  // of spans_: where the first piece began
  std::vector<WorkSpan> spans_;
};

}  // namespace millrace::cuda
