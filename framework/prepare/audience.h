// Who hears of a run and may ask something of it: observers of the file and of the program, and process 0 of several.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "config/plan.h"
#include "prepare/run_options.h"
#include "report/observers.h"
#include "report/relay.h"
#include "report/requests.h"
#include "report/run_log.h"

namespace millrace {

// The process with rank 0 has the observers, where there are several; the others send it what happens in them.
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
  std::set<std::string> warnings() const { return observers_.warnings(); }  // of this process
  void warn_once(std::string text);  // rank 0 says what all processes find; "": nothing is said

  // Called where there are several processes, before anything is reported: their reports are added up, and requests are in force
  // for all of them at the same step.
  void share();
  // Reports of the others are listened to. Not before observers know that the run has begun: another process may be ahead.
  void listen();
  void stop_listening() { receiver_ = nullptr; }           // REQUIRES: the group was left
  std::vector<DeviceTelemetry> devices_of_others() const;  // of processes, as they last said
  // The run is over. Throws what an observer throws that misses nothing.
  void end(RunEnd event);

 private:
  void add_observers();

  const Pipeline& pipeline_;
  const RunOptions& options_;
  // In this order, since observers may ask and send until they are gone.
  std::unique_ptr<Reporter> reporter_;  // of another rank than 0
  Requests requests_{[this](ObserverEvent event) { observers_.tell(std::move(event)); }};
  RunControl& control_ = requests_.control("the program");
  Observers observers_;
  std::unique_ptr<RunLog> log_;
  mutable Mutex mutex_;
  std::map<int, std::vector<DeviceTelemetry>> others_ MILLRACE_GUARDED_BY(mutex_);  // by rank
  std::unique_ptr<ReportReceiver> receiver_;                                        // of rank 0
};

}  // namespace millrace
