// Counts the bad samples of a run, and reports each to observers once, even if a resumed run meets it again.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/saved_state.h"
#include "millrace/observer.h"
#include "millrace/sample.h"
#include "report/observers.h"

namespace millrace {

// A bad sample as an event for observers.
BadSampleEvent bad_sample_event(std::string_view graph, const Sample& sample, std::string_view action);

// Thread-safe.
class BadSamples {
 public:
  explicit BadSamples(Observers& observers) : observers_(observers) {}  // outlives it

  void add(BadSampleEvent event);  // counts it, and reports it unless it was reported before a resume
  std::uint64_t count() const;     // in all graphs
  std::uint64_t skipped(std::string_view graph) const;

  // Holds bad samples of a rehearsal. They will repeat, and are reported if the rehearsal fails.
  void hold(BadSampleEvent event);
  void forget_held();
  void tell_held();
  std::uint64_t held(std::string_view graph) const;

  // Saves their number, and those that will repeat because their step or pass is unfinished.
  void save(SavedState& state) const;
  void restore(const SavedState& state);
  // No sample of the graph before this position of this epoch (both from 0) will repeat.
  void done(std::string_view graph, std::uint64_t epoch, std::uint64_t position);

 private:
  Observers& observers_;
  mutable Mutex mutex_;
  std::uint64_t count_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::set<SavedState::BadSample> ahead_ MILLRACE_GUARDED_BY(mutex_);  // in unfinished steps and passes
  std::set<SavedState::BadSample> told_ MILLRACE_GUARDED_BY(mutex_);   // reported ones that repeat after a resume
  std::vector<BadSampleEvent> held_ MILLRACE_GUARDED_BY(mutex_);       // in the current rehearsal
  std::map<std::string, std::uint64_t, std::less<>> skipped_ MILLRACE_GUARDED_BY(mutex_);  // by graph
};

}  // namespace millrace
