// Combines what stages report to their run: steps, sums over epochs, bad samples, warnings. Forwards to observers.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/saved_state.h"
#include "millrace/detail/value.h"
#include "millrace/observer.h"
#include "millrace/sample.h"
#include "millrace/stage.h"
#include "report/epoch_sums.h"
#include "report/number_watch.h"
#include "report/observers.h"
#include "report/relay.h"
#include "report/requests.h"

namespace millrace {

// Counts the bad samples of a run, and reports each to observers once, even if a resumed run meets it again. Thread-safe.
class BadSamples {
 public:
  explicit BadSamples(Observers& observers) : observers_(observers) {}  // outlives it

  void add(BadSampleEvent event);  // counts it, and reports it unless it was reported before a resume
  std::uint64_t count() const;     // in all graphs
  std::uint64_t skipped(std::string_view graph) const;

  // Holds bad samples of a rehearsal. They will repeat, and are reported if the rehearsal fails.
  void hold(BadSampleEvent event);
  void forget_held();
  void report_held();
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
  std::set<SavedState::BadSample> repeated_ MILLRACE_GUARDED_BY(mutex_);  // reported ones that repeat after a resume
  std::vector<BadSampleEvent> held_ MILLRACE_GUARDED_BY(mutex_);       // in the current rehearsal
  std::map<std::string, std::uint64_t, std::less<>> skipped_ MILLRACE_GUARDED_BY(mutex_);  // by graph
};

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

  bool has_reported_until(std::uint64_t step) const;  // whether all steps before this one were reported
  void times_from_now();                          // ends a pause of the run

 private:
  struct Pending {  // A step that was not reported yet.
    bool reported = false, done = false;
    Report report;
    std::set<std::string, std::less<>> promised;  // not received yet
  };
  void report_if_complete(std::uint64_t step) MILLRACE_REQUIRES(mutex_);

  const Setting setting_;
  Observers& observers_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, Pending> pending_ MILLRACE_GUARDED_BY(mutex_);
  double last_step_seconds_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

// Reports of stages, by subject. Each part is thread-safe.
struct RunFindings {
  NumberWatch numbers;  // losses and other values of the stepping graph
  BadSamples bad_samples;
  EpochSums epochs;
  StepLog steps;  // the stepping graph's
};

// Thread-safe.
class RunLog final : public RunServices {
 public:
  struct Options {
    std::uint64_t log_every = 1;                            // steps between events
    std::string stepping_graph;                             // the graph whose values are watched: "train"
    bool reports_steps = true;                              // whether StepLog::done() is called for each of its steps
    bool steps_are_reported = true;                         // false: steps are logged without their loss
    std::function<double(std::uint64_t)> rate_factor = {};  // per step, on top of requested factors; null: 1
    bool skips = false;                                     // NumberWatch::Setting
    std::uint64_t most_in_a_row = 0;
    std::optional<Shape> output = {};  // the network's, for one sample; may be empty
    std::string outputs = {};          // RunFolders
  };
  // Both outlive it.
  RunLog(Options options, Observers& observers, const Requests& requests);
  // For several processes: rank 0 sums all reports, and the others also send theirs to it through `reporter` (null on rank 0).
  // Called before any report; `reporter` outlives this.
  void share_reports(int processes, Reporter* reporter) {
    reporter_ = reporter;
    if (reporter == nullptr) joint_ = std::make_unique<JointReports>(processes);
  }
  void report(int rank, std::uint64_t pass, const StepReport& report);  // by one process; `pass`: EpochSums::passes()

  // The run's folder; for a pipeline that is only checked, its future path. Empty: nothing is written.
  void set_folder(const std::filesystem::path& folder) { folder_ = folder; }

  // RunServices
  void report(const StepReport& report) override;
  void scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) override;
  void figure(std::string_view graph, const Figure& figure) override { findings_.epochs.add_figure(graph, figure); }
  void promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) override;
  void not_finite(std::string_view graph, std::uint64_t step, std::string_view what) override;
  void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) override;
  std::string output_folder() const override { return folder_.empty() ? options_.outputs : folder_.string(); }
  void warn(std::string_view message) override { observers_.warn(std::string(message)); }
  double rate_factor(std::uint64_t step) const override {
    return requests_.factor(step) * (options_.rate_factor ? options_.rate_factor(step) : 1);
  }

  // While on, bad samples are not reported: they will repeat, or BadSamples::report_held() reports them if the rehearsal fails.
  void set_dry_run(bool on);
  bool is_dry_run() const override { return is_dry_run_; }

  RunFindings& findings() { return findings_; }

 private:
  void take(const StepReport& report) MILLRACE_REQUIRES(mutex_);

  const Options options_;
  Observers& observers_;
  const Requests& requests_;
  RunFindings findings_;
  Reporter* reporter_ = nullptr;         // null: reports stay in this process
  std::unique_ptr<JointReports> joint_;  // null: this process's reports are complete
  std::filesystem::path folder_;
  std::atomic<bool> is_dry_run_{false};
  Mutex mutex_;  // for sums over steps
};

// Writes the resolved pipeline into run.output_folder(). REQUIRES: it is set. Throws Error(run) naming the file; a resumed run
// only warns, and keeps its file.
void keep_pipeline(const Value& pipeline, bool resumes, RunServices& run);

}  // namespace millrace
