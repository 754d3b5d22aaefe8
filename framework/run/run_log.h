// What a run says about itself: metrics.jsonl, the ledger of bad samples, sums over epochs. Nothing here decides anything.
#pragma once

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "millrace/run.h"
#include "millrace/value.h"

namespace millrace {

// "a1b2c3d4e5f60718": how hashes are written.
std::string hex(std::uint64_t hash);

// Makes runs/<name>/<date>T<time>/ (a number is added when it exists). Throws Error(usage) naming the folder.
std::filesystem::path make_run_folder(const std::filesystem::path& parent, const std::string& name);

// Thread-safe.
class RunLog final : public RunServices {
 public:
  struct Options {
    bool json = false;               // every line of metrics.jsonl also on standard output
    std::uint64_t log_every = 1;     // steps between "step" lines
    bool quiet = false;              // says nothing on standard error but warnings
    std::string stepping_graph;      // whose steps are logged: "train"
    bool steps_are_reported = true;  // false: a step's line is written without its loss
  };
  explicit RunLog(Options options);
  ~RunLog() override;

  // From here on files are written: metrics.jsonl, the resolved pipeline, the ledger. An empty folder: none.
  void open(const std::filesystem::path& folder, const Value& pipeline);

  // RunServices
  void report(const StepReport& report) override;
  void scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) override;
  void promise_scalar(std::string_view graph, std::uint64_t step, std::string_view name) override;
  void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) override;
  const std::filesystem::path& folder() const override { return folder_; }
  void warn(std::string_view message) override;

  // A step's updates are submitted: with its report, its line can be written.
  void step_done(std::uint64_t step);

  // Sums over an epoch of a graph.
  struct Sums {
    std::shared_ptr<const Loss> loss;  // that makes figures of the sums
    StepSums sums;
    double samples = 0;
    std::uint64_t steps = 0;
    std::uint64_t stream_hash = 0;
    void add(const Sums& others);
    void add_figures(Json& line, std::size_t most = SIZE_MAX) const;    // the first ones, by name
    std::string text(int decimals, std::size_t most = SIZE_MAX) const;  // "loss 0.1234  accuracy 97.50 %"; shares in percent
  };
  Sums sums(std::string_view graph, std::uint64_t epoch) const;
  void forget(std::string_view graph, std::uint64_t epoch);
  std::uint64_t bad_samples() const;  // of all graphs
  std::uint64_t skipped_samples(std::string_view graph) const;

  // Adds "elapsed_seconds" and writes one line.
  void event(Json line);
  double elapsed_seconds() const;

 private:
  struct Pending {  // a step of the stepping graph whose line is not written yet
    bool reported = false, done = false;
    std::uint64_t epoch = 0;
    Sums sums;
    std::map<std::string, double, std::less<>> scalars;
    std::set<std::string, std::less<>> promised;  // that have not come yet
  };
  void write_step_if_whole(std::uint64_t step);
  void write_line(std::FILE* file, const Json& line);

  using Clock = std::chrono::steady_clock;
  Options options_;
  std::filesystem::path folder_;
  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::FILE* metrics_ = nullptr;
  std::FILE* ledger_ = nullptr;
  std::map<std::pair<std::string, std::uint64_t>, Sums> epochs_;
  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t bad_samples_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> skipped_;  // by graph
  double last_step_seconds_ = 0;
  bool lines_are_lost_ = false;
};

}  // namespace millrace
