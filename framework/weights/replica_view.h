// The replicas of a run, for readers and writers of their values.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/util/group.h"

namespace millrace {

// All referenced objects outlive it.
struct ReplicaView {
  const Network& network;
  const std::vector<std::unique_ptr<Replica>>& replicas;  // in this process, at least one
  const std::vector<std::unique_ptr<Device>>& devices;    // one per replica
  const std::vector<std::string>& copies;                 // CompileRequest::copies
  const std::string& evaluated;                           // CompileRequest::evaluated
  const std::vector<double>& load;                        // shares of all replicas; empty: equal
  std::size_t first_replica = 0, all_replicas = 0;        // in all processes
  Group* group = nullptr;                                 // the processes with the other replicas; null: there is one
};

}  // namespace millrace
