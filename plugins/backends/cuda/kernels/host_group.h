// Groups of threads (see portable.h) on the host: one lane, and, for tests, several that run concurrently.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>

#include "portable.h"

namespace millrace::cuda {

struct HostGroup {
  int lane() const { return 0; }
  int size() const { return 1; }
  template <class T>
  T sum(T value) const {
    return value;
  }
  template <class T>
  T largest(T value) const {
    return value;
  }
  void barrier() const {}
};

// Shared state of the lanes in a group of threads.
struct ThreadGroupMeeting {
  explicit ThreadGroupMeeting(int lanes) : barrier(lanes), values(static_cast<std::size_t>(lanes)) {}
  std::barrier<> barrier;
  std::vector<double> values;  // also holds float and std::int32_t values
};

class ThreadGroup {
 public:
  ThreadGroup(ThreadGroupMeeting& meeting, int lane) : all_gather_(meeting), lane_(lane) {}
  int lane() const { return lane_; }
  int size() const { return static_cast<int>(all_gather_.values.size()); }
  template <class T>
  T sum(T value) const {
    return joined(value, [](T a, T b) { return static_cast<T>(a + b); });
  }
  template <class T>
  T largest(T value) const {
    return joined(value, [](T a, T b) { return std::max(a, b); });
  }
  void barrier() const { all_gather_.barrier.arrive_and_wait(); }

 private:
  template <class T, class Join>
  T joined(T value, const Join& join) const {
    all_gather_.values[static_cast<std::size_t>(lane_)] = static_cast<double>(value);
    barrier();
    T result = static_cast<T>(all_gather_.values[0]);
    for (std::size_t other = 1; other < all_gather_.values.size(); ++other)
      result = join(result, static_cast<T>(all_gather_.values[other]));
    barrier();
    return result;
  }

  ThreadGroupMeeting& all_gather_;
  int lane_;
};

// Runs an element of form `groups`, each group with `lanes` lanes on separate threads. For tests: it starts threads for every
// group.
template <class Element>
void run_on_threads(const Element& element, int lanes) {
  for (std::int64_t i = 0; i < element.size(); ++i) {
    ThreadGroupMeeting meeting(lanes);
    std::vector<std::thread> threads;
    for (int lane = 0; lane < lanes; ++lane) {
      threads.emplace_back([&element, &meeting, i, lane] { element(ThreadGroup(meeting, lane), i); });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace millrace::cuda
