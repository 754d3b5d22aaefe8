// A search among a library's ways to compute one thing, the most promising first: which one it takes, and when it ends. Knows of
// no library and no device.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace millrace::cuda {

using Clock = std::function<double()>;  // seconds; does not go back

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct SearchLimits {
  std::size_t most = 1;  // candidates that work. Of 1 the first is taken, of more the fastest
  double deadline = 0;   // by the clock; from then on the best so far is taken
  bool insists = true;   // and where nothing has worked yet, the search goes on until something does
};

// A candidate that works. Its seconds are compared, so those that were not timed come after those that were.
template <class Plan>
struct Timed {
  Plan plan;
  double seconds = 0;
};

// `next` gives the next candidate as an optional, empty at the end. `attempt` makes a candidate and tries it: an optional Timed,
// empty for one that cannot be used. Nothing: none can. Of equals the first is taken.
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
