// Searches among a library's ways to compute something, most promising first: the choice, and when to stop. Independent of
// libraries and devices.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace millrace::cuda {

using Clock = std::function<double()>;  // seconds; monotonic

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct SearchLimits {
  std::size_t most = 1;  // working candidates to find. With 1 the first is taken, otherwise the fastest
  double deadline = 0;   // by the clock; then the best so far is taken
  bool insists = true;   // if nothing has worked by then, the search continues until something does
};

// A working candidate. Seconds are compared, so untimed ones come after timed ones.
template <class Plan>
struct Timed {
  Plan plan;
  double seconds = 0;
};

// `next` returns the next candidate as an optional, empty at the end. `attempt` makes and tries a candidate: an optional Timed,
// empty if it is unusable. Returns empty if none is usable. Among equals the first is taken.
template <class Next, class Attempt>
auto search_plans(const SearchLimits& limits, const Clock& clock, const Next& next, const Attempt& attempt)
    -> decltype(attempt(*next())) {
  decltype(attempt(*next())) best;
  for (std::size_t worked = 0; worked < limits.most;) {
    if ((best || !limits.insists) && clock() >= limits.deadline) break;
    auto candidate = next();
    if (!candidate) break;
    auto tried = attempt(std::move(*candidate));
    if (!tried) continue;
    ++worked;
    if (!best || tried->seconds < best->seconds) best = std::move(tried);
  }
  return best;
}

}  // namespace millrace::cuda
