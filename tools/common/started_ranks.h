// The ranks that a program starts on this machine, as --processes does. They meet and speak as ranks of any launcher do
// (framework/ranks).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/join_ranks.h"

namespace millrace {

class StartedRanks {
 public:
  // Makes `count` - 1 copies of this process, the ranks 1, 2, ...; this one is rank 0. Each goes on from here, and ends with rank
  // 0. `wishes` says how they find each other: rank 0 listens already, these ranks alone know the key, and one that ends is
  // noticed at once. Throws Error(run) when that fails. REQUIRES: there is one thread; `wishes` is not used after this.
  StartedRanks(int count, RankWishes& wishes);
  ~StartedRanks();  // end() after a run that went well
  StartedRanks(const StartedRanks&) = delete;
  StartedRanks& operator=(const StartedRanks&) = delete;

  const RankPlace& place() const { return place_; }
  // Of rank 0: waits for the others, says which of them a signal has killed, and kills those that do not end within `patience`
  // seconds. Returns the signal at which one stopped, since it came before there was anything to save (exit code 128 + SIGHUP,
  // SIGINT, SIGTERM or SIGXCPU); 0: none did. A signal to one rank counts for all.
  int end(int patience);

 private:
  std::string lost() const;  // which rank has ended, and how; "": none

  RankPlace place_;
  std::vector<pid_t> children_;  // by rank - 1; none once all have ended
};

}  // namespace millrace
