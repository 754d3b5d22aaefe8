// Notices that nothing moves in a graph.
#pragma once

#include <cstdint>
#include <string>

#include "base/waited_time.h"
#include "graph/graph.h"

namespace millrace {

// Says what a graph waits for when no packet has moved for `patience` seconds, and again each time twice as much has passed. One
// thread.
class StallWatch {
 public:
  explicit StallWatch(double patience = 30) : patience_(patience), next_(patience) {}
  // To be called some times a second. Empty: something moves, or it has been said.
  std::string look(const Graph& graph);

 private:
  const double patience_;
  double next_;  // seconds without movement
  std::uint64_t packets_ = 0;
  WaitedTime still_;  // since something moved
};

// What is under way in the graph, in words that are never empty.
std::string waits_for(const Graph& graph);

}  // namespace millrace
