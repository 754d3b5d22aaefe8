// Shared state of a simulation's machines, queues and marks: accesses, violations, planted faults.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend/engine_choices.h"
#include "millrace/error.h"
#include "simulation/allocations.h"
#include "simulation/arenas.h"
#include "testkit/recording_order.h"

namespace millrace::cuda {

class SimulatedQueue;

// Counted from 1 over the whole simulation in order of the calls, so that a fault can be planted at any of them.
enum class Count : std::uint8_t {
  waits,       // Queue::wait for a mark
  host_waits,  // Mark::wait
  callbacks,   // Mark::then
  tensors,     // of declared arenas
  operations,  // pieces of work, those of each launch of a recording included
  calls,       // that submit work, mark a queue, make it wait, or allocate
  kinds
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::chrono::microseconds longest_delay{200};
  std::uint32_t delay_one_in = 8;             // pieces of work: so many on average are run between two that wait at random
  std::size_t memory = std::size_t{8} << 30;  // of each machine
  std::size_t pinned = std::size_t{8} << 30;  // bytes that each machine can pin at once
  bool poison = true;  // the first to write a tensor of an arena finds NaN in it: nothing is left of whatever lay there
  std::string name = "simulated";  // of each machine
  std::string engine = "loops";    // the library's choice
  bool peer_access = true;         // elements can access other machines' memory
  bool accumulates = true;         // its library has engines that add to a gradient
  bool computes = true;            // false: work is checked and counted, but not executed; memory is not touched

  // Planted faults: the n-th of its kind; 0: none.
  std::uint64_t leave_out_wait = 0;       // Queue::wait does nothing
  std::uint64_t leave_out_host_wait = 0;  // Mark::wait returns at once
  std::uint64_t call_back_early = 0;      // Mark::then calls at once
  std::uint64_t end_lifetime_early = 0;   // a tensor of a declared arena dies one time before it should
  std::uint64_t begin_lifetime_late = 0;  // ... is born one time after it should
  std::uint64_t share_place = 0;          // ... lies where the one declared before it lies
  std::uint64_t fail_operation = 0;       // fails as work on a device does
  std::uint64_t fail_call = 0;            // throws, as do all calls from then on: the device is lost
  std::string garble = {};                // every piece of work of this name writes garbage
  bool sets_recorded_marks = true;        // false: a launch leaves the marks of its recording as they were
};

// Memory touched by a piece of work.
struct Touch {
  std::shared_ptr<Allocation> memory;
  std::size_t begin = 0, end = 0;  // within the memory
  bool write = false;
  Declaration arena;       // null if none
  int tensor = kNoTensor;  // in the arena
};

// Bytes read and written by all pieces of work with one name.
struct Traffic {
  std::uint64_t launches = 0, bytes = 0;
};

enum class HostUse : std::uint8_t { access, release };

// Thread-safe.
class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options) : options_(options), host_stream_(checker_.add_stream()) {}

  const SimulationOptions& options() const { return options_; }
  testkit::OrderChecker& checker() { return checker_; }
  Allocations& allocations() { return allocations_; }
  EngineChoices& choices(int machine);

  std::vector<testkit::Violation> violations() const;
  // work: its running number; 0: the latest.
  void report(const std::string& kind, const std::string& operation, const std::string& region, std::uint64_t work = 0);
  std::uint64_t count(Count what) const { return counts_[static_cast<std::size_t>(what)]; }  // so far
  std::uint64_t next(Count what) { return ++counts_[static_cast<std::size_t>(what)]; }
  // By name of the work, since forget_traffic().
  std::map<std::string, Traffic> traffic() const;
  void note_traffic(const std::string& work, const std::vector<Touch>& touches);
  void forget_traffic();
  // Counts one, and returns true for the planted one.
  bool strikes(Count what, std::uint64_t planted) { return next(what) == planted; }

  // Arenas.
  void declare_arena(const std::byte* arena, std::vector<ArenaTensor> tensors);
  Declaration arena_at(const std::byte* arena) const;  // throws Error(usage) if none was declared
  void restore(const Declaration& arena);
  void set_time(const Declaration& arena, int queue, int time);
  std::optional<int> time(const Declaration& arena, int queue) const;
  Declaration arena_of(const Allocation& memory, std::size_t offset) const;
  // Reports reads of unwritten data, then records the writes. A first write claims the whole tensor; returns those to be
  // poisoned.
  std::vector<Touch> note_contents(std::vector<Touch>& touches, const std::string& operation, std::uint64_t work);

  // The host's own use of memory: checked against its order and against the current callback's.
  void touch_as_host(HostUse use, const Touch& touch);
  void forget(const Allocation& memory);
  void check_guards(const Allocation& memory);

  // Work on a device has failed: nothing that comes later is done, on any machine.
  void fail_work(const Error& error);
  bool failed() const { return failed_; }
  std::optional<Error> failure() const;
  void throw_failure() const;  // if there is one
  // Counts a call that the host makes to the device, and fails where SimulationOptions::fail_call has been reached.
  void begin_call(int machine, const std::string& call);
  // Reports a call that a thread must not make while it records.
  void refuse_in_recording(const char* call);

  // Held while a piece of work is executed: unordered work runs in any order, but never concurrently, so that a planted fault is
  // not a data race of the tests.
  std::mutex& one_at_a_time() { return work_mutex_; }

  // For waiting on all of a machine's queues. The lock is held meanwhile.
  void add_queue(SimulatedQueue& queue);
  void remove_queue(SimulatedQueue& queue);
  void drain(int machine);

 private:
  Declaration known_declaration(const Declaration& declared);
  void plant(std::vector<ArenaTensor>& tensors);

  const SimulationOptions options_;
  testkit::OrderChecker checker_;
  Allocations allocations_;
  const int host_stream_;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Count::kinds)> counts_{};

  mutable std::mutex traffic_mutex_;
  std::map<std::string, Traffic> traffic_;

  mutable std::mutex arenas_mutex_;
  Arenas arenas_;
  std::vector<Declaration> declarations_;  // all declarations ever made, guarded by the same lock

  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
  std::atomic<bool> failed_ = false;

  std::mutex work_mutex_;

  std::mutex choices_mutex_;
  std::map<int, EngineChoices> choices_;  // by machine; in memory

  std::mutex queues_mutex_;
  std::vector<SimulatedQueue*> queues_;
};

// In the terms of its kind.
std::string describe(const testkit::Violation& violation);

// While it lives, this thread runs a mark's callback: host accesses are ordered after `clock`, on a separate stream.
class CallbackScope {
 public:
  CallbackScope(testkit::OrderChecker& checker, int stream, const testkit::Clock& clock);
  ~CallbackScope() { current_ = outer_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  // The stream of this thread's callback if it belongs to this checker; else `otherwise`.
  static int stream_or(const testkit::OrderChecker& checker, int otherwise) {
    return current_ != nullptr && current_->checker_ == &checker ? current_->stream_ : otherwise;
  }

 private:
  static thread_local const CallbackScope* current_;
  const testkit::OrderChecker* const checker_;
  const int stream_;
  const CallbackScope* const outer_;
};

// Number of queues this thread is recording: few device calls are allowed meanwhile.
inline thread_local int recordings_of_this_thread = 0;

}  // namespace millrace::cuda
