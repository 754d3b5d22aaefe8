// The processes that run a pipeline together: those that are made here, or that a launcher has started.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/join_ranks.h"
#include "common/started_ranks.h"
#include "millrace/util/group.h"
#include "ranks/socket_group.h"

namespace millrace {

class RankGroup {
 public:
  // Makes `processes` - 1 copies of this process, each of which goes on from here. REQUIRES: there is one thread.
  explicit RankGroup(int processes);
  // Joins those that were started elsewhere. Throws what join_ranks() does.
  RankGroup(const RankPlace& place, const RankWishes& wishes);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  Group* group() { return group_ ? &*group_ : nullptr; }  // null: this process is alone
  bool is_first() const { return !group_ || group_->rank() == 0; }

 private:
  std::optional<StartedRanks> started_;
  std::optional<SocketGroup> group_;
};

// Ends this process at once; of main(), as nothing else may.
using Leave = void (*)(int code);

// What `work` returns on rank 0 of so many new processes, which end with it: threads and devices that one run has made are in no
// other run's way then. Throws what `work` throws there, and Error(run) where the process was killed. REQUIRES: there is one
// thread.
std::string run_apart(int ranks, Leave leave, const std::function<std::string(Group* group)>& work);

}  // namespace millrace
