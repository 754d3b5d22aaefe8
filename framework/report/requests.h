// What is asked of a run while it goes on, and by whom.
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

// Hands requests to the run, which completes or refuses them, and tells observers each step of that. Thread-safe.
//
// In a run of several processes they wait outside until all processes have agreed on them (run/step_barrier.h). They are then in
// force from the same step on everywhere.
class Requests {
 public:
  static constexpr std::uint64_t kAtOnce = 0;
  using Tell = std::function<void(ObserverEvent event)>;
  explicit Requests(Tell tell) : tell_(std::move(tell)) {}

  // How `by`, such as "observer page", asks. Lives as long as this.
  RunControl& control(const std::string& by);
  void ask(RequestEvent request);

  // `take` receives each request that is in force once `from` steps are done, those first that wait already. Any thread calls it;
  // it must not block, and must not call this. Null: requests wait from here on.
  using Take = std::function<void(RequestEvent request, std::uint64_t from)>;
  void give_to(Take take);
  // `step`: steps done. These tell observers what became of a request.
  void complete(RequestEvent request, std::uint64_t step, std::string text = {});
  void refuse(RequestEvent request, std::string why);

  // Several processes: from here on requests wait outside.
  void share() {
    const Lock lock(mutex_);
    shared_ = true;
  }
  std::vector<RequestEvent> take_outside();
  // Agreed upon: in force when so many steps are done.
  void enter(RequestEvent request, std::uint64_t from);

  // The factor of the learning rate is that of all steps from `step` on, counted from 0. REQUIRES: no such step has begun.
  void set_factor(std::uint64_t step, double factor);
  double factor(std::uint64_t step) const;

 private:
  class Control;
  void hand_over(RequestEvent request, std::uint64_t from) MILLRACE_REQUIRES(mutex_);

  Tell tell_;
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
  // More changes than there can be between a step and its last report.
  static constexpr std::size_t kKeptFactors = 100;
  std::map<std::uint64_t, double> factors_ MILLRACE_GUARDED_BY(mutex_);  // by the first step that each is for
};

}  // namespace millrace
