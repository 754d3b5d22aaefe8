// What must have happened before what: the logic of the recording backend, without devices or threads of its own.
//
// Every operation that is submitted to a stream is told here, with the memory it reads and writes. Two operations that touch the
// same memory, one of them writing, must be ordered: by their stream, by an event that one records and the other's stream waits
// for, or by the host, which submitted the one after it had seen the other complete. If they are not, the order in which a device
// executes them is chance, and that is reported, whatever happened this time. (Vector clocks: Fidge 1988, Mattern 1989.)
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace millrace::testkit {

struct Operation {
  std::string name;  // stage and what it does: "allreduce.sum"
  std::uint64_t step = 0;
  int replica = -1;  // -1: of none in particular
  int bucket = -1;

  std::string text() const;  // "allreduce.sum of step 3 (replica 0, bucket 1)"
};

struct Access {
  std::string region;  // "gradients of bucket 1 on replica 0"
  std::uintptr_t begin = 0;
  std::uintptr_t end = 1;
  bool write = false;
};

struct Violation {
  std::string kind;     // "missing wait", "buffer reused in flight", "gradients of another step"
  Operation operation;  // the one that comes too early
  Operation before;     // the one it should have waited for
  std::string region;
  std::string text() const;
};

// How much of each stream's work is known to be done, by stream: what an event carries.
using Clock = std::vector<std::uint64_t>;
void join(Clock& clock, const Clock& other);

// Thread-safe.
class OrderChecker {
 public:
  int add_stream();
  // The stream's later work starts after everything that `clock` knows.
  void wait(int stream, const Clock& clock);
  // The host has seen it happen; everything that it submits from now on, on any thread, comes later.
  void seen_by_host(const Clock& clock);
  // The next operation on the stream. Returns its clock.
  Clock submit(int stream, const Operation& operation, const std::vector<Access>& accesses);

  Clock now(int stream) const;  // what is done when the stream has done all that was submitted to it

  // The step whose operation wrote the region last; of no operation yet: 0.
  std::uint64_t step_of(const std::string& region) const;

  void report(Violation violation);
  std::vector<Violation> violations() const;

 private:
  struct Entry {
    Access access;
    Operation operation;
    int stream = 0;
    std::uint64_t number = 0;  // within its stream
  };
  struct Region {
    std::vector<Entry> entries;  // that a later operation might have to wait for
    std::uint64_t step = 0;
  };
  void check(Region& region, const Entry& entry, const Clock& clock);

  mutable std::mutex mutex_;
  std::vector<Clock> streams_;
  Clock host_;
  std::map<std::string, Region> regions_;
  std::vector<Violation> violations_;
};

}  // namespace millrace::testkit
