// The ranks that a program starts on this machine for --processes. They meet and communicate like a launcher's ranks
// (framework/ranks).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/join_ranks.h"

namespace millrace {

class StartedRanks {
 public:
  // Makes `count` - 1 copies of this process, the ranks 1, 2, ...; this one is rank 0. Each continues from here, and ends with
  // rank 0. `wishes` receives how they find each other: rank 0 is listening already, only these ranks have the key, and a rank's
  // end is noticed at once. Throws Error(run) on failure. REQUIRES: there is one thread; `wishes` is not used after this.
  StartedRanks(int count, RankWishes& wishes);
  ~StartedRanks();  // end() after a successful run
  StartedRanks(const StartedRanks&) = delete;
  StartedRanks& operator=(const StartedRanks&) = delete;

  const RankPlace& place() const { return place_; }
  // Called by rank 0: waits for the others, logs those killed by a signal, and kills those that do not end within `patience`
  // seconds. Returns the signal that stopped one before there was anything to save (exit code 128 + SIGHUP, SIGINT, SIGTERM or
  // SIGXCPU); 0 if none. A signal to one rank counts for all.
  int end(int patience);

 private:
  std::string lost() const;  // the rank that ended, and how; "" if none

  RankPlace place_;
  std::vector<pid_t> children_;  // by rank - 1; empty once all have ended
};

}  // namespace millrace
