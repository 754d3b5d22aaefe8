// Measures how long a replica's queues have worked, by kind of work and by the device's clock, with two marks per piece. Nothing
// waits for it: a piece counts when it is found to be complete.
#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "machine.h"
#include "millrace/backend/device_times.h"

namespace millrace::cuda {

// Thread-safe.
class DeviceMeter {
 public:
  explicit DeviceMeter(Machine& machine) : machine_(machine) {}

  // Work submitted to `queue` while this lives adds to a member of DeviceTimes. Not within a recording. `meter`: null: disabled.
  // REQUIRES: the queue outlives the meter's use.
  class Piece {
   public:
    Piece(DeviceMeter* meter, Queue& queue, double DeviceTimes::*kind)
        : meter_(meter), queue_(queue), kind_(kind), begin_(meter != nullptr ? queue.timed_mark() : nullptr) {}
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    DeviceMeter* const meter_;
    Queue& queue_;
    double DeviceTimes::*const kind_;
    const Ref<Mark> begin_;
  };

  DeviceTimes times();

 private:
  struct Submitted {
    double DeviceTimes::*kind;
    Ref<Mark> begin, end;
  };
  void count_complete();  // REQUIRES: mutex_ is held

  Machine& machine_;
  std::mutex mutex_;                                         // guards the fields below
  std::map<const Queue*, std::deque<Submitted>> submitted_;  // a queue's pieces complete in order
  DeviceTimes times_;
};

}  // namespace millrace::cuda
