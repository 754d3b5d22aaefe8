// Which of cuDNN's engines compute a graph, and what it takes to make them ready.
#pragma once

#include <optional>

#include "findings.h"
#include "operation_graph.h"

namespace millrace::gpu {

// The properties of an H100, for engines that are asked for without one: "deviceless", which cuDNN 9.8 and later can.
inline constexpr std::size_t kDevicelessSince = 90800;
Descriptor described_device(const CudnnApi& api);

// An engine with its knobs set, not finalised yet.
struct Candidate {
  Descriptor config;
  std::int64_t engine = 0;
  std::string choice;     // "62 0=1 12=3": the engine, and its knobs by type
  bool compiled = false;  // on the spot, which takes time
  Json report;            // what is known of it: engine, choice, from, behaviour, numerics
};

// What cuDNN has for a graph: `heuristics` tells in which order it expects them to be fast.
struct Engines {
  std::int64_t known = 0;                // engines that there are for any graph like this one
  std::vector<std::int64_t> supporting;  // those of them that take this graph
  Json refusals = Json::object();        // the others, by cuDNN's reason
  std::vector<Candidate> candidates;     // of the heuristics, then each other engine as it is by default
  std::string why_no_heuristics;
};
Engines engines_of(const CudnnApi& api, const OperationGraph& graph, const CudnnTarget& target);

struct ReadyEngine {
  Descriptor plan;
  std::size_t workspace = 0;
};
// Finalises, and adds how long that took and the workspace to the candidate's report, or "why" it is not to be had.
std::optional<ReadyEngine> make_ready(const CudnnApi& api, const OperationGraph& graph, const CudnnTarget& target,
                                      Candidate& candidate);

}  // namespace millrace::gpu
