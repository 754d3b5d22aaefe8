// Which of cuDNN's engines computes an operation graph.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convolution_graph.h"

namespace millrace::cuda {

// What an engine may do to the numbers.
struct EngineRules {
  DataType type = DataType::f32;
  bool tf32 = false;
  bool deterministic = false;
  std::size_t most_compiled = 0;  // engines whose code is compiled on the spot, tried, whether they work or not

  // Sums are in float32 for all engines that pass. The graph API has no attribute for TF32: engines that use it on float32 inputs
  // carry the note "tensor core", since tensor cores take float32 in no other way but rounded.
  bool allow(std::span<const cudnnBackendNumericalNote_t> notes) const;
};

// What cuDNN says of an engine before it is finalised.
struct EngineNotes {
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  bool compiled() const;  // its code is generated and compiled while it is finalised, which takes seconds
};

// Which engines of one search are finalised.
class EngineGate {
 public:
  explicit EngineGate(const EngineRules& rules) : rules_(rules) {}

  // Empty: it is, and counts. Else why it is passed over.
  std::string refuse(const EngineNotes& notes);

 private:
  const EngineRules rules_;
  std::size_t compiled_ = 0;
};

// An engine with its knobs set, ready to run.
struct EnginePlan {
  Descriptor config;  // lives as long as the plan made of it
  Descriptor plan;
  std::size_t workspace = 0;
  std::string name;    // "cuDNN engine 62"
  std::string choice;  // "62 0=1 12=3": the engine, and its knobs by type. Means the same to one version on one model of device
  bool compiled = false;  // see EngineNotes
};

// Engines in the order in which cuDNN's heuristics expect them to be fast: mode A, then B, then the fallback, each asked only
// when those before have run out. What several of them name comes once.
class EngineSearch {
 public:
  EngineSearch(const CudnnApi& api, const ConvolutionGraph& graph, const CudnnTarget& target, const EngineRules& rules,
               std::size_t workspace_limit);

  // The next one, with its knobs set: little work. Nothing: there are no more.
  std::optional<Descriptor> next();
  // Finalises it. Nothing: it breaks the rules, needs more workspace or is not supported here.
  std::optional<EnginePlan> accept(Descriptor config);
  // The one that an earlier search chose, for this graph and under these rules. Nothing: it is not to be had.
  std::optional<EnginePlan> take(const std::string& choice);
  // The same, with its code from write_compiled(), so that nothing is compiled. That text is trusted to be of such a graph.
  std::optional<EnginePlan> take_compiled(const std::string& choice, const std::string& compiled);
  const std::string& why_not() const { return why_not_; }  // of the last that was passed over

 private:
  void ask(cudnnBackendHeurMode_t mode);
  bool allows(const Descriptor& config);
  std::optional<EnginePlan> finish(Descriptor config, Descriptor plan);

  const CudnnApi& api_;
  const ConvolutionGraph& graph_;
  const CudnnTarget target_;
  EngineGate gate_;
  const std::size_t workspace_limit_;
  std::size_t mode_ = 0;
  std::vector<Descriptor> configs_;
  std::size_t config_ = 0;
  std::set<std::string> given_;  // as text
  std::string why_not_;
};

// A compiled plan as text (cuDNN's own JSON: graph, device, engine, knobs and code). Nothing when cuDNN does not give it.
std::optional<std::string> write_compiled(const EnginePlan& plan);

// Device properties from their JSON, for a device that is not here.
Descriptor describe_device(const CudnnApi& api, const std::string& json);

}  // namespace millrace::cuda
