// Several processes of this machine that run one pipeline together.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace millrace {

// This process and the others, connected pairwise by sockets.
class Processes {
 public:
  // Makes `size` - 1 copies of this process, which have the ranks 1, 2, ...; this one is 0. Each goes on from here. Throws
  // Error(run) when that fails. REQUIRES: there is one thread.
  explicit Processes(int size);
  ~Processes();  // rank 0: waits for the others, and kills those that do not end
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // By rank; -1 for this one. Belong to the caller, who closes them.
  const std::vector<int>& sockets() const { return sockets_; }
  // "killed by signal 9", "ended with exit code 3", "": unknown. Rank 0 alone knows; waits a moment for the process to end.
  std::string fate(int rank) const;
  // Of the processes whose fate is known: the signal at which one stopped, since it came before there was anything to save (exit
  // code 128 + SIGHUP, SIGINT, SIGTERM or SIGXCPU). 0: none did. A signal to one counts for all, and need not have reached this
  // one first.
  int stop_signal() const;

 private:
  int rank_ = 0;
  const int size_;
  std::vector<int> sockets_;
  std::vector<pid_t> children_;  // by rank - 1
  mutable Mutex mutex_;
  mutable std::vector<std::optional<int>> statuses_
      MILLRACE_GUARDED_BY(mutex_);  // by rank - 1, of those that have ended, as waitpid() tells
};

}  // namespace millrace
