// Reports of other processes to rank 0, which alone has observers: step measurements, bad samples, warnings and device activity.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "millrace/observer.h"
#include "millrace/stage.h"
#include "millrace/util/group.h"
#include "millrace/util/step_result.h"
#include "millrace/util/telemetry_event.h"

namespace millrace {

// Sends reports of another rank to rank 0. Thread-safe.
class Reporter {
 public:
  explicit Reporter(Group& group) : group_(group) {}
  void send(const RunServices::StepReport& report, std::uint64_t pass);  // see JointReports
  void send(const BadSampleEvent& event);
  void send(const WarningEvent& event);
  void send(std::span<const DeviceTelemetry> devices, bool is_last);  // is_last: of this run

 private:
  void send(std::span<const std::byte> message);
  Group& group_;
  Mutex mutex_;  // one message at a time
};

// Forwards events to rank 0 from a process without observers.
class RelayObserver final : public RunObserver {
 public:
  explicit RelayObserver(Reporter& reporter) : reporter_(reporter) {}
  void bad_sample(const BadSampleEvent& event) override { reporter_.send(event); }
  void warning(const WarningEvent& event) override { reporter_.send(event); }
  void telemetry(const TelemetryEvent& event) override;

 private:
  static constexpr double kPeriod = 1;  // minimum seconds between device reports: there may be many processes
  Reporter& reporter_;
  double sent_ = -kPeriod;  // TelemetryEvent::elapsed_seconds of the last one
};

std::string ranks_text(const std::set<int>& ranks);  // "rank 2", "ranks 1, 2", "511 ranks (1, 2, 3, 4, ...)"

// Warnings of several ranks, each text once: holds it briefly, so that other ranks can report the same, and then for longer.
// Thread-safe.
class JointWarnings {
 public:
  using Seconds = std::chrono::duration<double>;
  struct Patience {
    Seconds first{5}, later{60};
  };
  using Report = std::function<void(const std::set<int>& ranks, const std::string& text)>;  // called on its own thread

  JointWarnings(Report report, const Patience& patience);
  JointWarnings(const JointWarnings&) = delete;
  JointWarnings& operator=(const JointWarnings&) = delete;
  ~JointWarnings();  // delivers held warnings

  void add(int rank, const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  struct Held {
    std::set<int> ranks = {};  // not reported yet
    Clock::time_point due = {};
    bool was_reported = false;
  };
  void run();

  const Report report_;
  const Patience patience_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Held> held_ MILLRACE_GUARDED_BY(mutex_);  // by text
  bool ends_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last, since it uses the members above
};

// Rank 0's end: a thread for each other process. The threads end, and are joined, when the group was left or all others have
// ended.
class ReportReceiver {
 public:
  struct Take {
    // The report's `graph` is valid during the call.
    std::function<void(int rank, std::uint64_t pass, const RunServices::StepReport& report)> report;
    std::function<void(BadSampleEvent event)> bad_sample;
    JointWarnings::Report warning;
    std::function<void(int rank, std::vector<DeviceTelemetry> devices, bool is_last)> devices = {};
  };
  ReportReceiver(Group& group, Take take);  // leaves the group if it throws, so that started threads end
  ReportReceiver(const ReportReceiver&) = delete;
  ReportReceiver& operator=(const ReportReceiver&) = delete;

 private:
  void listen(int rank);
  Group& group_;
  const Take take_;
  std::unique_ptr<JointWarnings> warnings_;
  std::vector<std::jthread> threads_;
};

// Sums all processes' measurements of a step, in rank order. Each process counts a graph's passes: when a pass is stopped, only
// some have done its last steps, and the next pass reuses their numbers. Not thread-safe.
class JointReports {
 public:
  explicit JointReports(int processes) : processes_(static_cast<std::size_t>(processes)) {}
  // The whole step's report, if this completes it. Strings and the loss are the first rank's.
  struct Report {
    std::string graph;
    RunServices::StepReport report;
  };
  std::unique_ptr<Report> add(int rank, std::uint64_t pass, const RunServices::StepReport& report);

 private:
  struct Step {
    std::string graph;
    std::uint64_t pass = 0, step = 0;
    auto operator<=>(const Step&) const = default;
  };
  const std::size_t processes_;
  std::map<Step, std::map<int, Report>> open_;  // by rank
};

}  // namespace millrace
