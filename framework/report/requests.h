// What is asked of a run while it goes on, and by whom.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "millrace/observer.h"
#include "report/observers.h"

namespace millrace {

// Holds requests until the run completes or refuses them, and tells each step of that. Thread-safe.
//
// In a run of several processes they wait outside until all processes have agreed upon them (run/step_barrier.h), and are then in
// force from one and the same step on everywhere.
class Requests {
 public:
  static constexpr std::uint64_t kAtOnce = 0;
  using Tell = std::function<void(ObserverEvent event)>;
  explicit Requests(Tell tell) : tell_(std::move(tell)) {}

  // How `by`, such as "observer page", asks. Lives as long as this.
  RunControl& control(const std::string& by);
  void ask(RequestEvent request);

  // The oldest request of this kind that waits and is in force when `done` steps are done. It does not wait any more.
  std::optional<RequestEvent> take(RequestKind kind, std::uint64_t done);
  bool waits(RequestKind kind, std::uint64_t done) const;
  // `step`: steps done. Tell what became of a request that was taken.
  void complete(RequestEvent request, std::uint64_t step, std::string text = {});
  void refuse(RequestEvent request, std::string why);
  void refuse_all(const std::string& why);
  // The run has stopped: completes every request to stop that is left. One Ctrl-C at a terminal reaches each process.
  void complete_stops(std::uint64_t step);

  // Several processes: from here on requests wait outside.
  void share() {
    const Lock lock(mutex_);
    shared_ = true;
  }
  std::vector<RequestEvent> take_outside();
  // Agreed upon: in force when so many steps are done.
  void enter(RequestEvent request, std::uint64_t from);

  // The newest of the factors that were asked for is that of all steps from `step` on, counted from 0. REQUIRES: no such step has
  // begun.
  void complete_factors(std::uint64_t step);
  void set_factor(std::uint64_t step, double factor);  // of a run that goes on
  double factor(std::uint64_t step) const;

 private:
  class Control;
  Tell tell_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<RunControl>> controls_ MILLRACE_GUARDED_BY(mutex_);
  struct Waiting {
    RequestEvent request;
    std::uint64_t from = kAtOnce;
  };
  std::vector<Waiting> waiting_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<RequestEvent> outside_ MILLRACE_GUARDED_BY(mutex_);
  bool shared_ MILLRACE_GUARDED_BY(mutex_) = false;
  // More changes than there can be between a step and its last report.
  static constexpr std::size_t kKeptFactors = 100;
  std::map<std::uint64_t, double> factors_ MILLRACE_GUARDED_BY(mutex_);  // by the first step that each is for
};

}  // namespace millrace
