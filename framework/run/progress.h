// How far the main graph of a run is: its threads say it, and the thread of the run waits for it. What people
// see of it is printed by plugins/observers/console.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "millrace/error.h"

namespace millrace {

// Thread-safe.
class Progress {
 public:
  explicit Progress(std::uint64_t done) : done_(done) {}

  // What becomes of the gate after a step. It stays open, or the run is to look: the step is a boundary, an observer is too far
  // after, or the run is in trouble.
  struct Gate {
    bool is_open = true, is_boundary = false;
    std::string held_by = {};  // the observer
  };
  // From the graph's threads: so many steps are done. `decide` must not block. Returns whether the next step may begin.
  bool step_done(std::uint64_t done, const std::function<Gate(std::uint64_t done)>& decide);
  void drained(std::optional<Error> error);  // the graph's last packet has come home

  std::uint64_t done() const;  // steps whose updates are submitted
  bool is_drained() const;
  std::optional<Error> error() const;  // that has ended the graph

  struct News {
    std::uint64_t boundary = 0;  // the gate is closed after so many steps; 0: it is not. It is told once
    bool is_drained = false;
    std::string held_by;  // the observer that the gate is closed for; "": none
  };
  // Waits until there is some, `wakes` says so, or the time is over.
  News wait(std::chrono::milliseconds most, const std::function<bool()>& wakes);
  bool is_at_boundary() const;  // that was not told yet
  void release();               // the observer has caught up

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t done_ = 0, boundary_ = 0;
  std::string held_by_;
  bool drained_ = false;
  std::optional<Error> error_;
};

}  // namespace millrace
