// The gate in front of a graph's stepwise stages: lets complete steps through in order, each when the step token has come home
// and the processes of the run have agreed upon it. Also the token's home. Touched a few times a step, never per sample.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/node.h"
#include "millrace/batch.h"
#include "util/mutex.h"

namespace millrace::flow {

class Gate : public std::enable_shared_from_this<Gate> {
 public:
  // steps_per_epoch: for the token's epoch. `entries`: how many edges lead to stepwise stages; a step is complete when a packet
  // has arrived on each.
  Gate(Core& core, std::shared_ptr<Credits> credits, std::uint64_t steps_per_epoch);
  ~Gate();

  void add_entry() { ++entries_; }
  bool any_entry() const { return entries_ > 0; }
  void on_step_done(Graph::StepDone callback) { step_done_ = std::move(callback); }
  void on_step_ready(Graph::Agree agree) { agree_ = std::move(agree); }

  void start(std::uint64_t first, std::uint64_t last);
  std::uint64_t set_horizon(std::uint64_t step);
  void hold();
  void resume();
  void stop();     // drops what waits; what arrives from now on is dropped
  void give_up();  // after an error: stop(), and nothing is reported to step_done or to the graph any more
  void arrive(Link& link, Packet packet);
  bool has_passed(std::uint64_t step) const;

  struct Waited {
    std::uint64_t for_data = 0, for_ranks = 0, for_step = 0;  // ticks
  };
  Waited waited();
  std::pair<Graph::WaitingFor, std::uint64_t> waiting_for() const;  // the cause of the present wait, and the step that waits

 private:
  class Token;
  struct Arrived {
    Link* link;
    Packet packet;
  };
  struct Waiting {
    std::vector<Arrived> packets;
    std::vector<std::vector<double>> weights;  // by packet
    bool agreed = false;                       // the weights are known, and all processes go on
    bool left_out = false;                     // StepAgreed::leave_out
  };

  static std::vector<std::vector<std::vector<double>>> weigh(std::vector<Arrived> packets);
  void agreed(std::uint64_t step, Graph::StepAgreed answer);

  void token_home(Token* token);
  void pass();      // every step that may go now
  bool pass_one();  // false: none may
  bool next_is_complete() const MILLRACE_REQUIRES(mutex_);
  bool is_open() const MILLRACE_REQUIRES(mutex_) { return !held_ && next_ < horizon_; }
  void account() MILLRACE_REQUIRES(mutex_);  // adds the time since the last event to what was waited for

  Core& core_;
  std::shared_ptr<Credits> credits_;
  const std::uint64_t steps_per_epoch_;
  std::size_t entries_ = 0;
  Graph::StepDone step_done_;
  Graph::Agree agree_;  // empty: this process is alone

  mutable Mutex mutex_;
  std::map<std::uint64_t, Waiting> waiting_ MILLRACE_GUARDED_BY(mutex_);  // by step
  std::uint64_t next_ MILLRACE_GUARDED_BY(mutex_) = 0, last_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t horizon_ MILLRACE_GUARDED_BY(mutex_) = UINT64_MAX;  // the first step that may not pass
  Token* token_ MILLRACE_GUARDED_BY(mutex_);                        // null while it is away
  bool held_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool stopped_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool given_up_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::uint64_t accounted_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Waited waited_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::flow
