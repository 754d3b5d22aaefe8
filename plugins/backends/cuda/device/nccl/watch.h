// Which sums over devices are under way, and whether one of them takes too long. Pure: told what was seen, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace millrace::cuda {

struct NcclLimits {
  // From when the last device has its gradients until every device has the sum: nothing but communication.
  std::chrono::milliseconds sum{60'000};
  // From when the first device has its gradients until the last one has: devices of a run may differ in speed, but not by this
  // much.
  std::chrono::milliseconds arrival{600'000};
};

// A device goes through the sums in the order in which they were submitted. Of each sum it is first waiting for its own
// gradients, then arrived, then finished. What is reported of a device means the oldest sum that it has not finished. Not
// thread-safe.
//
// A failure is final: the first reason stays.
class NcclWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  NcclWatch(std::vector<std::string> devices, NcclLimits limits);

  void submitted(std::uint64_t step, int bucket);  // REQUIRES: no failure
  void arrived(std::size_t device, Time now);      // may be reported again and again; the first time counts
  void finished(std::size_t device, Time now);     // REQUIRES: this device has an unfinished sum

  bool idle() const { return sums_.empty(); }  // every sum is finished on every device

  // What a limit that has passed says: the sum, and the devices that hold it up.
  std::optional<std::string> overdue(Time now) const;

  void fail(const std::string& reason);
  // A device reports an error of its own: names the device and the oldest sum that it has not finished.
  void fail(std::size_t device, const std::string& reason);
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  enum class State : std::uint8_t { waiting, arrived, finished };
  struct Sum {
    std::uint64_t step = 0;
    int bucket = 0;
    std::vector<State> states;        // by device
    std::optional<Time> first, last;  // when the first and when the last device had its gradients
  };
  std::size_t count(const Sum& sum, State state) const;
  std::string names(const Sum& sum, State state) const;
  void arrive(Sum& sum, std::size_t device, Time now);
  Sum* current(std::size_t device);

  const std::vector<std::string> devices_;
  const NcclLimits limits_;
  std::deque<Sum> sums_;             // the oldest that somebody has not finished, and all after it
  std::uint64_t retired_ = 0;        // sums that were taken off the front
  std::vector<std::uint64_t> done_;  // by device: sums that it has finished
  std::optional<std::string> failure_;
};

}  // namespace millrace::cuda
