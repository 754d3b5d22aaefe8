// Which of cuDNN's engines computes an operation graph.
#pragma once

#include <optional>

#include "cudnn_convolution_graph.h"

namespace millrace::cuda {

// What an engine may do to the numbers.
struct EngineRules {
  DataType type = DataType::f32;
  bool tf32 = false;
  bool deterministic = false;

  // Sums are in float32 for all engines that pass. The graph API has no attribute for TF32: engines that use it on float32 inputs
  // carry the note "tensor core", since tensor cores take float32 in no other way but rounded.
  bool allow(std::span<const cudnnBackendNumericalNote_t> notes) const;
};

// An engine with its knobs set, ready to run.
struct EnginePlan {
  Descriptor config;  // lives as long as the plan made of it
  Descriptor plan;
  std::size_t workspace = 0;
  std::string name;       // "cuDNN engine 62"
  bool compiled = false;  // its code was generated and compiled just now, which takes seconds
};

// Engines in the order in which cuDNN's heuristics expect them to be fast: mode A, then B, then the fallback, each asked only
// when those before have run out. Engines that break the rules, need more workspace or cannot be finalised are passed over.
class EngineSearch {
 public:
  EngineSearch(const CudnnApi& api, const ConvolutionGraph& graph, const CudnnTarget& target, const EngineRules& rules,
               std::size_t workspace_limit);

  std::optional<EnginePlan> next();
  const std::string& why_not() const { return why_not_; }  // of the last that was passed over

 private:
  bool ask(cudnnBackendHeurMode_t mode);
  std::optional<EnginePlan> accept(Descriptor config);

  const CudnnApi& api_;
  const ConvolutionGraph& graph_;
  const CudnnTarget target_;
  const EngineRules rules_;
  const std::size_t workspace_limit_;
  std::size_t mode_ = 0;
  std::vector<Descriptor> configs_;
  std::size_t config_ = 0;
  std::string why_not_;
};

// The choice as text (cuDNN's own JSON: graph, device, engine and knobs), and back. Nothing when cuDNN does not give or take it:
// it may come from another version or device, and older versions write down the engines only that they compile themselves.
std::optional<std::string> save(const EnginePlan& plan);
std::optional<EnginePlan> restore(const CudnnApi& api, const CudnnTarget& target, const std::string& text);

// Device properties from their JSON, for a device that is not here.
Descriptor describe_device(const CudnnApi& api, const std::string& json);

}  // namespace millrace::cuda
