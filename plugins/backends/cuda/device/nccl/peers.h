// A run's processes for NCCL's communicators.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "group.h"
#include "millrace/communicator.h"
#include "millrace/util/group.h"

namespace millrace::cuda {

// Detects at once that the group has lost a process. REQUIRES: this process has left the group before the watch is destroyed, or
// the group has lost one.
class PeerWatch {
 public:
  explicit PeerWatch(Group& group);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  std::optional<std::string> lost() const;  // the reason; empty if all are present. Thread-safe

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> lost_;
  std::thread thread_;
};

// Called by all processes. Rank 0 creates the id.
NcclWorld nccl_world(const NcclApi& api, const CommunicatorType::Setting& setting,
                     std::function<std::optional<std::string>()> lost);

}  // namespace millrace::cuda
