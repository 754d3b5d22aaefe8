// Gathers values from a run's replicas in the middle of their passes.
#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/error.h"
#include "millrace/util/group.h"
#include "util/mutex.h"

namespace millrace {

class GroupAllGather final : public ReplicaAllGather {
 public:
  // This process has the replicas first ... first + here - 1 of `all`. `group`: null if that is all of them; outlives this.
  GroupAllGather(std::size_t first, std::size_t here, std::size_t all, Group* group);

  std::size_t replicas() const override { return all_; }
  void gather(std::size_t replica, std::span<const double> mine, std::span<double> all) override;
  void give_up() override;

 private:
  struct Round {
    std::vector<double> mine, all;  // the local replicas', and all
    std::size_t arrived = 0;
    bool done = false;
  };
  void finish(Round& round);  // called by the last local replica

  const std::size_t first_, here_, all_;
  Group* const group_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Round> round_ MILLRACE_GUARDED_BY(mutex_) = std::make_shared<Round>();
  std::optional<Error> error_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
