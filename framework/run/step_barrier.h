// What the processes of a run exchange before each step of a graph: that their part of the batch is complete, its weight, the bad
// samples, and requests. A step begins when all have answered; so all do the same steps, and stop,
// save and validate at the same ones.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "graph/graph.h"
#include "millrace/util/bad_sample_budget.h"
#include "millrace/util/group.h"
#include "report/requests.h"

namespace millrace {

// The barrier of one graph. Its thread exchanges while the steps before are computed.
class StepBarrier {
 public:
  // A request that was exchanged with step s is in force when step s is done, if `counts` (the main graph of a run that trains);
  // else at once. `channel`: of this graph alone. `bad_samples`: counts those of all processes; null: nothing does. `finishes`: a
  // request to stop lets a pass go on to its end, unless it is a signal.
  StepBarrier(Group& group, std::uint32_t channel, Requests& requests, bool counts, HasBadSampleBudget* bad_samples,
              bool finishes = false);
  ~StepBarrier();
  // No answer is given from here on, whatever other processes send: the graph may be destroyed.
  void end();

  // Before Graph::start() of these steps.
  void start(std::uint64_t first);
  // For Graph::on_step_ready().
  void step_is_ready(Graph::StepReady ready, std::function<void(Graph::StepAgreed)> answer);

 private:
  struct Waiting {
    Graph::StepReady ready;
    std::function<void(Graph::StepAgreed)> answer;
  };
  void loop();
  Graph::StepAgreed gather(const Graph::StepReady& ready);
  void enter(std::vector<RequestEvent> requests, bool stops, std::uint64_t from);

  Group& group_;
  const std::uint32_t channel_;
  Requests& requests_;
  const bool counts_, finishes_;
  HasBadSampleBudget* const bad_samples_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Waiting> waiting_ MILLRACE_GUARDED_BY(mutex_);  // by step
  std::uint64_t next_ MILLRACE_GUARDED_BY(mutex_) = 0;
  bool stops_ MILLRACE_GUARDED_BY(mutex_) = false;  // a process was asked to stop: no later step of this pass begins
  bool ending_ MILLRACE_GUARDED_BY(mutex_) = false, answering_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace
