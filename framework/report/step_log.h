// The steps of a run, as reported to observers.
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

// Reports each step of one graph when its parts are complete: its report, updates, and promised scalars. The observers outlive
// it. Thread-safe.
class StepLog {
 public:
  struct Setting {
    std::string graph;
    std::uint64_t every = 1;   // steps between events
    bool are_reported = true;  // false: steps are logged without their loss
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
  void promise(std::uint64_t step, std::string_view name);  // announces a scalar
  void done(std::uint64_t step);                            // its updates were submitted

  bool has_told_until(std::uint64_t step) const;  // whether all steps before this one were reported
  void times_from_now();                          // ends a pause of the run

 private:
  struct Pending {  // A step that was not reported yet.
    bool reported = false, done = false;
    Report report;
    std::set<std::string, std::less<>> promised;  // not received yet
  };
  void tell_if_whole(std::uint64_t step) MILLRACE_REQUIRES(mutex_);

  const Setting setting_;
  Observers& observers_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, Pending> pending_ MILLRACE_GUARDED_BY(mutex_);
  double last_step_seconds_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
