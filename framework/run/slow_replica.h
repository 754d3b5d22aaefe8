// Names the replica for which all others wait.
#pragma once

#include <string>
#include <vector>

#include "run/run_context.h"

namespace millrace {

// What a replica has computed so far.
struct ReplicaWork {
  std::string place;  // "cpu:0 of rank 1 on node-2"
  double seconds = 0, samples = 0;
};

// "": none computes a quarter longer than the slowest of the others, or none has computed for half a second. Else which one, and
// the `load` with which all would take as long.
std::string slow_replica_text(const std::vector<ReplicaWork>& replicas);

class SlowReplica {
 public:
  // Warns once in a run. All processes call it at the same steps.
  void check(const RunContext& run);

 private:
  bool is_named_ = false;
};

}  // namespace millrace
