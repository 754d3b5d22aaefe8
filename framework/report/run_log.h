// Combines what stages report to their run: steps, sums over epochs, bad samples, warnings. Forwards to observers.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "millrace/detail/value.h"
#include "millrace/stage.h"
#include "report/bad_samples.h"
#include "report/epoch_sums.h"
#include "report/number_watch.h"
#include "report/observers.h"
#include "report/relay.h"
#include "report/requests.h"
#include "report/step_log.h"

namespace millrace {

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
    bool tells_steps = true;                                // whether StepLog::done() is called for each of its steps
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
  void figure(std::string_view graph, const Figure& figure) override { found_.epochs.add_figure(graph, figure); }
  void promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) override;
  void not_finite(std::string_view graph, std::uint64_t step, std::string_view what) override;
  void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) override;
  std::string output_folder() const override { return folder_.empty() ? options_.outputs : folder_.string(); }
  void warn(std::string_view message) override { observers_.warn(std::string(message)); }
  double rate_factor(std::uint64_t step) const override {
    return requests_.factor(step) * (options_.rate_factor ? options_.rate_factor(step) : 1);
  }

  // While on, bad samples are not reported: they will repeat, or BadSamples::tell_held() reports them if the rehearsal fails.
  void set_dry_run(bool on);
  bool is_dry_run() const override { return is_dry_run_; }

  RunFindings& found() { return found_; }

 private:
  void take(const StepReport& report) MILLRACE_REQUIRES(mutex_);

  const Options options_;
  Observers& observers_;
  const Requests& requests_;
  RunFindings found_;
  Reporter* reporter_ = nullptr;         // null: reports stay in this process
  std::unique_ptr<JointReports> joint_;  // null: this process's reports are complete
  std::filesystem::path folder_;
  std::atomic<bool> is_dry_run_{false};
  Mutex mutex_;  // for sums over steps
};

// Writes the resolved pipeline into run.output_folder(). REQUIRES: it is set. Throws Error(run) naming the file; a resumed run
// only warns, and keeps its file.
void keep_pipeline(const Value& pipeline, bool goes_on, RunServices& run);

}  // namespace millrace
