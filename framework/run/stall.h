// Detects a graph in which nothing moves, and reports what it waits for.
#pragma once

#include <cstdint>
#include <string>

#include "base/waited_time.h"
#include "graph/graph.h"

namespace millrace {

// Describes what a graph waits for when no packet has moved for longer than usual, and again each time that has lasted twice as
// long. One thread.
class StallWatch {
 public:
  // Call it several times a second. Empty if something moves, or if it was reported already.
  std::string check(const Graph& graph, const std::string& name);

  // Seconds without movement after which something is wrong: many times the longest of the last pauses. Before the graph has
  // moved some times, a pause may be a network that is compiled, or files that are fetched. Pure.
  static double patience(double usual_pause, std::uint64_t movements);

 private:
  double next_ = 0;  // seconds without movement; 0: as patience() returns
  double usual_ = 0;
  std::uint64_t packets_ = 0, movements_ = 0;
  WaitedTime still_;  // since something moved
};

// What is under way in the graph `name`, in words that are never empty: "[train.decode_image] works on sample 'cat/1.jpg' of step
// 13 for 12 s; 3 packets wait before [train.batch]; the next step waits for a batch". Pure.
std::string text_of(const Graph::StallReport& stall_report, const std::string& name);

}  // namespace millrace
