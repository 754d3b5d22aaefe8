// The processes of a run, as NCCL's communicators need them.
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

// Knows at once when the group has lost a process. REQUIRES: this process has left the group before the watch is destroyed, or
// the group has lost one.
class PeerWatch {
 public:
  explicit PeerWatch(Group& group);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  std::optional<std::string> lost() const;  // why; nothing: all are there. Thread-safe

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> lost_;
  std::thread thread_;
};

// All processes call it. The identity is made by rank 0.
NcclWorld nccl_world(const NcclApi& api, const CommunicatorType::Setting& setting,
                     std::function<std::optional<std::string>()> lost);

}  // namespace millrace::cuda
