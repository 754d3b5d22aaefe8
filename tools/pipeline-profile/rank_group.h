// The processes that run a pipeline together: started here or by a launcher.
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
  // Makes `processes` - 1 copies of this process, which continue from here. REQUIRES: there is one thread.
  explicit RankGroup(int processes);
  // Joins processes started elsewhere. Throws the errors of join_ranks().
  RankGroup(const RankPlace& place, const RankWishes& wishes);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  Group* group() { return group_ ? &*group_ : nullptr; }  // null if this process is alone
  bool is_first() const { return !group_ || group_->rank() == 0; }

 private:
  std::optional<StartedRanks> started_;
  std::optional<SocketGroup> group_;
};

// Ends this process at once; only main() may define it.
using Leave = void (*)(int code);

// Returns the result of `work` on rank 0 of this many new processes, which end with it: its threads and devices cannot affect
// other runs. Throws the exceptions of `work`, and Error(run) if the process was killed. REQUIRES: there is one thread.
std::string run_apart(int ranks, Leave leave, const std::function<std::string(Group* group)>& work);

}  // namespace millrace
