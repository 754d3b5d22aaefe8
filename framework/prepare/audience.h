// The recipients of a run's events, which may also send requests: observers of the file and of the program, and process 0 of
// several.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/plan.h"
#include "prepare/run_options.h"
#include "report/observers.h"
#include "report/relay.h"
#include "report/requests.h"
#include "report/run_log.h"
#include "util/mutex.h"

namespace millrace {

// Rank 0 has the observers; the other processes send it their events.
class Audience {
 public:
  // `pipeline`, `options` and their group outlive this. Throws Error(usage) for parameters of an observer.
  Audience(const Pipeline& pipeline, const RunOptions& options);
  Audience(const Audience&) = delete;
  Audience& operator=(const Audience&) = delete;

  Observers& observers() { return observers_; }
  Requests& requests() { return requests_; }
  const Requests& requests() const { return requests_; }
  RunControl& control() { return control_; }  // the program's
  RunLog& log() const { return *log_; }       // REQUIRES: open_log()
  void open_log(const GraphPlan& stepping_graph);
  void warn(std::string text) { observers_.warn(std::move(text)); }
  std::set<std::string> warnings() const { return observers_.warnings(); }  // reported by this process
  void warn_once(std::string text);  // reported by rank 0 only, since all processes find the same; "": nothing

  // For several processes, before any report: sums their reports, and makes requests take effect at the same step in all of
  // them.
  void share();
  // Starts receiving other processes' reports. Only after observers know that the run has begun, since another process may be
  // ahead.
  void listen();
  void stop_listening() { receiver_ = nullptr; }           // REQUIRES: the group was left
  std::vector<DeviceTelemetry> devices_of_others() const;  // the last reports of other processes
  // At the end of training, on all ranks: sends this rank's devices to rank 0, which waits a moment for those of all others.
  void share_last(const std::vector<DeviceTelemetry>& devices);
  // Ends the run. Rethrows the error of an observer with Delivery::all.
  void end(RunEnd event);

 private:
  void add_observers();

  const Pipeline& pipeline_;
  const RunOptions& options_;
  // In this order, since observers may send requests and events until destroyed.
  std::unique_ptr<Reporter> reporter_;  // on ranks other than 0
  Requests requests_{[this](ObserverEvent event) { observers_.send(std::move(event)); }};
  RunControl& control_ = requests_.control("the program");
  Observers observers_;
  std::unique_ptr<RunLog> log_;
  mutable Mutex mutex_;
  std::map<int, std::vector<DeviceTelemetry>> others_ MILLRACE_GUARDED_BY(mutex_);  // by rank
  std::condition_variable has_ended_;
  std::set<int> ended_ MILLRACE_GUARDED_BY(mutex_);  // other ranks whose last report has arrived
  std::unique_ptr<ReportReceiver> receiver_;         // on rank 0
};

}  // namespace millrace
