// SIGINT, SIGTERM, SIGHUP, and SIGXCPU of a limit of processor time. The first one requests an orderly end of the run; before the
// first training step, when nothing would be lost, it ends the program. Until the run has ended, a message every ten seconds
// names what it waits for. The second signal ends the program at once, with a message (common/second_signal.h). SIGUSR2, with
// which Slurm announces a job's end, counts as SIGTERM. SIGUSR1 requests a checkpoint, and SIGQUIT (Ctrl-\) a report of what
// everything currently waits for. A signal that is ignored when the program starts stays ignored.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "report/activity.h"

namespace millrace {

class SignalWatch {
 public:
  // From here on these signals stay pending for a watch. Call this first: SIGUSR1, which requests a checkpoint, would end a
  // starting program.
  static void block();
  // REQUIRES: the program has no other threads yet. Blocks these signals in this thread and in those that it starts; one more
  // thread takes them. `activity` must outlive this object. `end` ends the program with an exit code, at once.
  SignalWatch(const Activity& activity, std::function<void(int code)> end);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  const std::atomic<int>& signal() const { return signal_; }            // the one received; 0 if none
  const std::atomic<int>& checkpoints() const { return checkpoints_; }  // number of requests

 private:
  void watch();
  void take(int signal);  // returns after the first one, and the run continues to its end

  const Activity& activity_;
  const std::function<void(int code)> end_;
  std::atomic<int> signal_{0}, checkpoints_{0};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace millrace
