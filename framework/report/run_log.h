// What stages say to their run, put together: steps, sums over epochs, bad samples, warnings. Observers are told.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "millrace/detail/value.h"
#include "millrace/stage.h"
#include "report/bad_samples.h"
#include "report/number_watch.h"
#include "report/observers.h"
#include "report/relay.h"
#include "report/requests.h"

namespace millrace {

// Thread-safe.
class RunLog final : public RunServices {
 public:
  struct Options {
    std::uint64_t log_every = 1;                            // steps between events
    std::string stepping_graph;                             // whose losses and figures are watched: "train"
    bool tells_steps = true;                                // step_done() is called for each of its steps
    bool steps_are_reported = true;                         // false: a step is told without its loss
    std::function<double(std::uint64_t)> rate_factor = {};  // at a step, on top of what was asked for; null: 1
    bool skips = false;                                     // NumberWatch::Setting
    std::uint64_t most_in_a_row = 0;
    std::int64_t outputs = 0;  // of the network; 0: it has none
  };
  // Both outlive it.
  RunLog(Options options, Observers& observers, const Requests& requests);
  // In a run of several processes rank 0 adds up what all of them report, and the others send it there as well, by `reporter`;
  // null: this is rank 0. Before anything is reported; `reporter` outlives this.
  void share_reports(int processes, Reporter* reporter) {
    reporter_ = reporter;
    if (reporter == nullptr) joint_ = std::make_unique<JointReports>(processes);
  }
  void report(int rank, const StepReport& report);  // of one process

  // The run's folder, and the resolved pipeline in it. Empty: nothing is written. Throws Error(run) naming the file; a run that
  // goes on warns instead, and keeps the file that it has.
  void open(const std::filesystem::path& folder, const Value& pipeline, bool goes_on);
  // Where a folder would be made, for a pipeline that is checked and not run.
  void expect_folder(const std::filesystem::path& parent) { folder_ = parent; }

  // RunServices
  void report(const StepReport& report) override;
  void scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) override;
  void promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) override;
  void not_finite(std::string_view graph, std::uint64_t step, std::string_view what) override;
  void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) override;
  std::string output_folder() const override { return folder_.string(); }
  const std::filesystem::path& folder() const { return folder_; }
  void warn(std::string_view message) override { observers_.warn(std::string(message)); }
  double rate_factor(std::uint64_t step) const override {
    return requests_.factor(step) * (options_.rate_factor ? options_.rate_factor(step) : 1);
  }

  // While it is on, bad samples are not told: they will come again, or bad_samples().tell_held() where the rehearsal has failed.
  void set_dry_run(bool on);
  bool is_dry_run() const override { return is_dry_run_; }

  void times_steps_from_now();  // the run stood still until now
  // A step's updates are submitted: with its report, it can be told.
  void step_done(std::uint64_t step);
  bool has_told_until(std::uint64_t step) const;  // all steps before this one

  // Sees the losses and other figures of the stepping graph.
  const NumberWatch& numbers() const { return numbers_; }
  BadSamples& bad_samples() { return bad_samples_; }

  // Sums over an epoch of a graph.
  struct Sums {
    std::shared_ptr<const Loss> loss;  // that makes figures of the sums
    StepSums sums;
    double samples = 0;
    std::uint64_t steps = 0;
    std::uint64_t stream_hash = 0;
    std::int64_t outputs = 0;  // of the network
    void add(const Sums& others);
    // Whether no sample had a weight, as when all were left out. There are no figures then: a mean over nothing is none, and 0
    // would be the best loss of all.
    bool measured_nothing() const;
    std::vector<Figure> figures(std::size_t most = SIZE_MAX) const;  // the first ones
    std::vector<double> class_matrix() const;                        // empty where the loss has none
  };
  Sums sums(std::string_view graph, std::uint64_t epoch) const;
  void restore(std::string_view graph, std::uint64_t epoch, Sums sums);  // of a run that goes on
  void forget(std::string_view graph, std::uint64_t epoch);

 private:
  struct Pending {  // a step of the stepping graph that is not told yet
    bool reported = false, done = false;
    std::uint64_t epoch = 0;
    double samples = 0;
    std::vector<Figure> figures;
    std::map<std::string, double, std::less<>> scalars;
    std::set<std::string, std::less<>> promised;  // that have not come yet
  };
  void take(const StepReport& report) MILLRACE_REQUIRES(mutex_);
  void tell_step_if_whole(std::uint64_t step) MILLRACE_REQUIRES(mutex_);

  const Options options_;
  Observers& observers_;
  const Requests& requests_;
  NumberWatch numbers_;
  BadSamples bad_samples_;
  Reporter* reporter_ = nullptr;         // null: this process keeps its reports
  std::unique_ptr<JointReports> joint_;  // null: this process's reports are whole
  std::filesystem::path folder_;
  std::atomic<bool> is_dry_run_{false};
  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::uint64_t>, Sums> epochs_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Pending> pending_ MILLRACE_GUARDED_BY(mutex_);
  double last_step_seconds_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
