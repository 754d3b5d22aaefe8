// The replicas of a run, for what reads and writes their values.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/util/group.h"

namespace millrace {

// Everything that it points to outlives it.
struct ReplicaView {
  const Network& network;
  const std::vector<std::unique_ptr<Replica>>& replicas;  // of this process, one at least
  const std::vector<std::unique_ptr<Device>>& devices;    // of each of them
  const std::vector<std::string>& copies;                 // CompileRequest::copies
  const std::string& evaluated;                           // CompileRequest::evaluated
  const std::vector<double>& load;                        // shares of all replicas; empty: equal
  std::size_t first_replica = 0, all_replicas = 0;        // of all processes
  Group* group = nullptr;                                 // the processes with the other replicas; null: there are none
};

}  // namespace millrace
