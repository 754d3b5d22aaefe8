// SIGINT, SIGTERM, SIGHUP, and SIGXCPU of a limit of processor time. The first one asks the run to end in good order; before the
// first training step, where nothing would be lost, it ends the program. While the run has not ended, what it waits for is said
// every ten seconds. The second signal ends the program at once, and says so (common/second_signal.h). SIGUSR2, with which Slurm
// warns of a job's end, is taken as SIGTERM. SIGUSR1 asks for a checkpoint, and SIGQUIT (Ctrl-\) for what everything waits for at
// the moment. A signal that is ignored when the program starts stays so.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "report/activity.h"

namespace millrace {

class SignalWatch {
 public:
  // From here on these signals wait for a watch. Called first of all: SIGUSR1, which asks for a checkpoint, would end a program
  // that has only begun.
  static void block();
  // REQUIRES: the program has no other thread yet. Blocks these signals in this thread and in those that it starts; one more
  // thread takes them. `activity` outlives this object. `end` ends the program with an exit code, at once.
  SignalWatch(const Activity& activity, std::function<void(int code)> end);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  const std::atomic<int>& signal() const { return signal_; }            // that came; 0: none
  const std::atomic<int>& checkpoints() const { return checkpoints_; }  // how often one was asked for

 private:
  void watch();
  void take(int signal);  // returns when it was the first one, and the run goes on to its end

  const Activity& activity_;
  const std::function<void(int code)> end_;
  std::atomic<int> signal_{0}, checkpoints_{0};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace millrace
