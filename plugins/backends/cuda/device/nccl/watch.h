// Tracks pending sums over devices, and whether one takes too long. Pure: observations and times are arguments.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace millrace::cuda {

struct NcclLimits {
  // From the last device's gradients until every device has the sum: only communication.
  std::chrono::milliseconds sum{60'000};
  // From the first device's gradients until the last one's: devices of a run may differ in speed, but not by this much.
  std::chrono::milliseconds arrival{600'000};
};

// A device processes sums in the order of submission. In each it first waits for its gradients, then has arrived, then finished.
// A report about a device refers to its oldest unfinished sum. Not thread-safe.
//
// A failure is final: the first reason stays.
class NcclWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  NcclWatch(std::vector<std::string> devices, NcclLimits limits);

  void submitted(std::uint64_t step, int bucket);  // REQUIRES: no failure
  void arrived(std::size_t device, Time now);      // may be reported repeatedly; the first time counts
  void finished(std::size_t device, Time now);     // REQUIRES: this device has an unfinished sum

  bool idle() const { return sums_.empty(); }  // every sum is finished on every device

  // The message of an exceeded limit: the sum, and the devices that delay it.
  std::optional<std::string> overdue(Time now) const;

  void fail(const std::string& reason);
  // A device's own error: the message names the device and its oldest unfinished sum.
  void fail(std::size_t device, const std::string& reason);
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  enum class State : std::uint8_t { waiting, arrived, finished };
  struct Sum {
    std::uint64_t step = 0;
    int bucket = 0;
    std::vector<State> states;        // by device
    std::optional<Time> first, last;  // when the first and the last device had their gradients
  };
  std::size_t count(const Sum& sum, State state) const;
  std::string names(const Sum& sum, State state) const;
  void arrive(Sum& sum, std::size_t device, Time now);
  Sum* current(std::size_t device);

  const std::vector<std::string> devices_;
  const NcclLimits limits_;
  std::deque<Sum> sums_;             // the oldest unfinished one, and all after it
  std::uint64_t retired_ = 0;        // sums removed from the front
  std::vector<std::uint64_t> done_;  // by device: number of finished sums
  std::optional<std::string> failure_;
};

}  // namespace millrace::cuda
