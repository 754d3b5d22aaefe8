// The bad samples of a run: counted, and told to observers once each, also where a resumed run meets them again.
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

// What a stage says of a bad sample, for observers.
BadSampleEvent bad_sample_event(std::string_view graph, const Sample& sample, std::string_view action);

// Thread-safe.
class BadSamples {
 public:
  explicit BadSamples(Observers& observers) : observers_(observers) {}  // outlives it

  void add(BadSampleEvent event);  // counts it, and tells observers, unless they were told before a resume
  std::uint64_t count() const;     // of all graphs
  std::uint64_t skipped(std::string_view graph) const;

  // Keeps those of a rehearsal. They will come again, and are told where it fails.
  void hold(BadSampleEvent event);
  void forget_held();
  void tell_held();
  std::uint64_t held(std::string_view graph) const;

  // What a checkpoint has of them: their number, and which of them come again, since what they belong to is not done.
  void save(SavedState& state) const;
  void restore(const SavedState& state);
  // No sample of the graph before this position of this epoch, both from 0, comes again.
  void done(std::string_view graph, std::uint64_t epoch, std::uint64_t position);

 private:
  Observers& observers_;
  mutable Mutex mutex_;
  std::uint64_t count_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::set<SavedState::BadSample> ahead_ MILLRACE_GUARDED_BY(mutex_);  // of steps and passes that are not done
  std::set<SavedState::BadSample> told_ MILLRACE_GUARDED_BY(mutex_);   // of them; they come again, after a resume
  std::vector<BadSampleEvent> held_ MILLRACE_GUARDED_BY(mutex_);       // of the rehearsal under way
  std::map<std::string, std::uint64_t, std::less<>> skipped_ MILLRACE_GUARDED_BY(mutex_);  // by graph
};

}  // namespace millrace
