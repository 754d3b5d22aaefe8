// Checks the required order of operations: the logic of the recording backend, without its own devices or threads.
//
// Every operation submitted to a stream is reported here, with the memory that it reads and writes. Two operations on the same
// memory, at least one of them writing, must be ordered: by their stream, by an event that one records and the other's stream
// waits for, or by the host, which submitted the later one after it had seen the other complete. If they are not, their order on
// a device is undefined, and that is reported, whatever happened this time. (Vector clocks: Fidge 1988, Mattern 1989.)
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace millrace::testkit {

struct Operation {
  std::string name;  // stage and action: "allreduce.sum"
  std::uint64_t step = 0;
  int replica = -1;  // -1: no particular one
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
  Operation before;     // the one that it should have waited for
  std::string region;
  std::string text() const;
};

// The amount of each stream's work known to be done, by stream: carried by events.
using Clock = std::vector<std::uint64_t>;
void join(Clock& clock, const Clock& other);

// Thread-safe.
class OrderChecker {
 public:
  int add_stream();
  // The stream's later work starts after all work in `clock`.
  void wait(int stream, const Clock& clock);
  // The host has seen it complete; everything that it submits from now on, on any thread, comes later.
  void seen_by_host(const Clock& clock);
  // Adds the next operation on the stream. Returns its clock.
  Clock submit(int stream, const Operation& operation, const std::vector<Access>& accesses);

  Clock now(int stream) const;  // the work done when the stream has finished all that was submitted to it

  // The step whose operation last wrote the region; 0 if none did.
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
    std::vector<Entry> entries;  // a later operation might have to wait for these
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
