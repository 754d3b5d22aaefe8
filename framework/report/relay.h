// What processes tell the one with rank 0, which alone has observers: what each step measured, bad samples, warnings, and what
// their devices do.
#pragma once

#include <functional>
#include <map>
#include <memory>
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

// What a process with another rank reports to rank 0. Thread-safe.
class Reporter {
 public:
  explicit Reporter(Group& group) : group_(group) {}
  void send(const RunServices::StepReport& report);
  void send(const BadSampleEvent& event);
  void send(const WarningEvent& event);
  void send(std::span<const DeviceTelemetry> devices);

 private:
  void send(std::span<const std::byte> message);
  Group& group_;
  Mutex mutex_;  // of one message at a time
};

// Takes what happens in a process without observers of its own to rank 0.
class RelayObserver final : public RunObserver {
 public:
  explicit RelayObserver(Reporter& reporter) : reporter_(reporter) {}
  void bad_sample(const BadSampleEvent& event) override { reporter_.send(event); }
  void warning(const WarningEvent& event) override { reporter_.send(event); }
  void telemetry(const TelemetryEvent& event) override;

 private:
  static constexpr double kPeriod = 1;  // seconds from one word on devices to the next: there may be many processes
  Reporter& reporter_;
  double sent_ = -kPeriod;  // TelemetryEvent::elapsed_seconds of the last one
};

// Rank 0's end: a thread for each other process. They end, and are joined, when the group was left or all others have ended.
class ReportReceiver {
 public:
  struct Take {
    std::function<void(int rank, const RunServices::StepReport& report)> report;  // its `graph` lives during the call
    std::function<void(BadSampleEvent event)> bad_sample;
    std::function<void(WarningEvent event)> warning;
    std::function<void(int rank, std::vector<DeviceTelemetry> devices)> devices = {};
  };
  ReportReceiver(Group& group, Take take);  // leaves the group where it throws: the threads that have begun end
  ReportReceiver(const ReportReceiver&) = delete;
  ReportReceiver& operator=(const ReportReceiver&) = delete;

 private:
  void listen(int rank);
  Group& group_;
  const Take take_;
  std::vector<std::jthread> threads_;
};

// Adds up what the processes measured of a step, in order of rank. Not thread-safe.
class JointReports {
 public:
  explicit JointReports(int processes) : processes_(static_cast<std::size_t>(processes)) {}
  // The whole step's, when this was the last process's report. The strings and the loss are the first rank's.
  struct Report {
    std::string graph;
    RunServices::StepReport report;
  };
  std::unique_ptr<Report> add(int rank, const RunServices::StepReport& report);

 private:
  const std::size_t processes_;
  std::map<std::pair<std::string, std::uint64_t>, std::map<int, Report>> open_;  // by graph and step, by rank
};

}  // namespace millrace
