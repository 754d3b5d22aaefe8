// Chooses a cuDNN engine for an operation graph.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convolution_graph.h"

namespace millrace::cuda {

// Limits on an engine's numerical behaviour.
struct EngineRules {
  DataType type = DataType::f32;
  bool tf32 = false;
  bool deterministic = false;
  std::size_t most_compiled = 0;  // limit of run-time compiled engines to try, including failures

  // All engines that pass sum in float32. The graph API has no attribute for TF32: engines that use it on float32 inputs have the
  // note "tensor core", since tensor cores only take rounded float32.
  bool allow(std::span<const cudnnBackendNumericalNote_t> notes) const;
};

// cuDNN's notes about an engine before it is finalised.
struct EngineNotes {
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  bool compiled() const;  // its code is generated and compiled when finalised, which takes seconds
};

// Decides which engines of one search are finalised.
class EngineGate {
 public:
  explicit EngineGate(const EngineRules& rules) : rules_(rules) {}

  // Empty if it is accepted, and then counts it. Otherwise the reason to skip it.
  std::string refuse(const EngineNotes& notes);

 private:
  const EngineRules rules_;
  std::size_t compiled_ = 0;
};

// An engine with its knobs set, ready to run.
struct EnginePlan {
  Descriptor config;  // lives as long as the plan made from it
  Descriptor plan;
  std::size_t workspace = 0;
  std::string name;       // "cuDNN engine 62"
  std::string choice;     // "62 0=1 12=3": the engine, and its knobs by type. Valid for one version on one model of device
  bool compiled = false;  // see EngineNotes
};

// Engines in order of expected speed by cuDNN's heuristics: mode A, then B, then the fallback, each queried only when the
// previous ones are exhausted. Duplicates are dropped.
class EngineSearch {
 public:
  EngineSearch(const CudnnApi& api, const ConvolutionGraph& graph, const CudnnTarget& target, const EngineRules& rules,
               std::size_t workspace_limit);

  // The next one with its knobs set: cheap. Empty at the end.
  std::optional<Descriptor> next();
  // Finalises it. Empty if it breaks the rules, needs more workspace or is not supported here.
  std::optional<EnginePlan> accept(Descriptor config);
  // The engine that an earlier search chose for this graph under these rules. Empty if it is not available.
  std::optional<EnginePlan> take(const std::string& choice);
  // The same, with its code from write_compiled(), so that nothing is compiled. The text is trusted to belong to such a graph.
  std::optional<EnginePlan> take_compiled(const std::string& choice, const std::string& compiled);
  const std::string& why_not() const { return why_not_; }  // about the last skipped engine

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

// A compiled plan as text (cuDNN's own JSON: graph, device, engine, knobs and code). Empty if cuDNN does not provide it.
std::optional<std::string> write_compiled(const EnginePlan& plan);

}  // namespace millrace::cuda
