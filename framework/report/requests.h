// Requests to a running run, and their origins.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "millrace/observer.h"
#include "report/observers.h"

namespace millrace {

// Hands requests to the run, which completes or refuses them, and reports each stage. Thread-safe.
//
// In a run of several processes, requests wait outside until all processes have agreed on them (run/step_barrier.h), and then
// take effect from the same step everywhere.
class Requests {
 public:
  static constexpr std::uint64_t kAtOnce = 0;
  using Send = std::function<void(ObserverEvent event)>;
  explicit Requests(Send send) : send_(std::move(send)) {}

  // The control for `by`, such as "observer page". Lives as long as this.
  RunControl& control(const std::string& by);
  void ask(RequestEvent request);

  // Calls `take` for each request, first for those that wait. A request is in force after `from` steps. Any thread may call it; it
  // must neither block nor call this object. Null: requests wait from now on.
  using Take = std::function<void(RequestEvent request, std::uint64_t from)>;
  void give_to(Take take);
  // `step`: steps done. Report the outcome of a request.
  void complete(RequestEvent request, std::uint64_t step, std::string text = {});
  void refuse(RequestEvent request, std::string why);

  // For several processes: from now on requests wait outside.
  void share() {
    const Lock lock(mutex_);
    shared_ = true;
  }
  std::vector<RequestEvent> take_outside();
  // An agreed request, in force after `from` steps.
  void enter(RequestEvent request, std::uint64_t from);

  // The factor applies from `step` on, counted from 0. REQUIRES: that step has not begun.
  void set_factor(std::uint64_t step, double factor);
  double factor(std::uint64_t step) const;

 private:
  class Control;
  void hand_over(RequestEvent request, std::uint64_t from) MILLRACE_REQUIRES(mutex_);

  Send send_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<RunControl>> controls_ MILLRACE_GUARDED_BY(mutex_);
  struct Waiting {
    RequestEvent request;
    std::uint64_t from = kAtOnce;
  };
  Take take_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<Waiting> waiting_ MILLRACE_GUARDED_BY(mutex_);  // while `take_` is null
  std::vector<RequestEvent> outside_ MILLRACE_GUARDED_BY(mutex_);
  bool shared_ MILLRACE_GUARDED_BY(mutex_) = false;
  // More changes than can occur between a step and its last report.
  static constexpr std::size_t kKeptFactors = 100;
  std::map<std::uint64_t, double> factors_ MILLRACE_GUARDED_BY(mutex_);  // by the first step of each
};

}  // namespace millrace
