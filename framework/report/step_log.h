// The steps of a run, as observers are told of them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "report/observers.h"

namespace millrace {

// Tells each step of one graph once all that belongs to it is known: its report, its updates, and the figures that stages have
// promised. The observers outlive it. Thread-safe.
class StepLog {
 public:
  struct Setting {
    std::string graph;
    std::uint64_t every = 1;   // steps between events
    bool are_reported = true;  // false: a step is told without its loss
  };
  StepLog(Setting setting, Observers& observers) : setting_(std::move(setting)), observers_(observers) {}

  using Scalars = std::map<std::string, double, std::less<>>;
  struct Report {
    std::uint64_t epoch = 0;
    double samples = 0;
    std::vector<Figure> figures;
    Scalars scalars;
  };
  void report(std::uint64_t step, Report report);
  void scalar(std::uint64_t step, std::string_view name, double value);
  void promise(std::uint64_t step, std::string_view name);  // of a scalar
  void done(std::uint64_t step);                            // its updates are submitted

  bool has_told_until(std::uint64_t step) const;  // all steps before this one
  void times_from_now();                          // the run stood still until now

 private:
  struct Pending {  // a step that is not told yet
    bool reported = false, done = false;
    Report report;
    std::set<std::string, std::less<>> promised;  // that have not come yet
  };
  void tell_if_whole(std::uint64_t step) MILLRACE_REQUIRES(mutex_);

  const Setting setting_;
  Observers& observers_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, Pending> pending_ MILLRACE_GUARDED_BY(mutex_);
  double last_step_seconds_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
