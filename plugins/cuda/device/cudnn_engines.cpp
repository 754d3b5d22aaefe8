#include "cudnn_engines.h"

#include <algorithm>
#include <array>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::array kModes{CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};

Descriptor engine_of(const CudnnApi& api, const Descriptor& config) {
  Descriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, std::span(&engine, 1));
  return engine;
}

void aim(Descriptor& plan, const CudnnTarget& target) {
  if (target.handle != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  if (target.properties != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
}

EnginePlan finish(const CudnnApi& api, Descriptor config, Descriptor plan) {
  const Descriptor engine = engine_of(api, config);
  const auto number = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const auto workspace = static_cast<std::size_t>(plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  const auto notes = engine.get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  const bool compiled = std::find(notes.begin(), notes.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != notes.end();
  return {std::move(config), std::move(plan), workspace, fmt::format("cuDNN engine {}", number), compiled};
}

}  // namespace

bool EngineRules::allow(std::span<const cudnnBackendNumericalNote_t> notes) const {
  const bool exact = type == DataType::f32 && !tf32;
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return true;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return deterministic;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return exact;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return type == DataType::f32;  // to 16 bits
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:                                  // lose more digits than TF32 does
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return true;
      default: return false;
    }
  });
}

EngineSearch::EngineSearch(const CudnnApi& api, const ConvolutionGraph& graph, const CudnnTarget& target,
                           const EngineRules& rules, std::size_t workspace_limit)
    : api_(api), graph_(graph), target_(target), rules_(rules), workspace_limit_(workspace_limit) {}

std::optional<EnginePlan> EngineSearch::next() {
  for (;;) {
    while (config_ < configs_.size()) {
      if (auto plan = accept(std::move(configs_[config_++]))) return plan;
    }
    if (mode_ == kModes.size()) return std::nullopt;
    ask(kModes[mode_++]);
  }
}

bool EngineSearch::ask(cudnnBackendHeurMode_t mode) {
  configs_.clear();
  config_ = 0;
  Descriptor heuristics(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, graph_.about());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_.native()).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target_.properties != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target_.properties);
  if (!heuristics.try_finalize(why_not_)) return false;
  const std::int64_t count = heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  for (std::int64_t i = 0; i < count; ++i) configs_.emplace_back(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, graph_.about());
  const std::int64_t found = count == 0 ? 0 : heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, configs_);
  while (static_cast<std::int64_t>(configs_.size()) > found) configs_.pop_back();
  return found > 0;
}

std::optional<EnginePlan> EngineSearch::accept(Descriptor config) {
  const auto notes = engine_of(api_, config)
                         .get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  if (!rules_.allow(notes)) {
    why_not_ = "its engines round more than is allowed, or are not deterministic";
    return std::nullopt;
  }
  Descriptor plan(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, graph_.about());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  aim(plan, target_);
  if (!plan.try_finalize(why_not_)) return std::nullopt;
  EnginePlan result = finish(api_, std::move(config), std::move(plan));
  if (result.workspace <= workspace_limit_) return result;
  why_not_ =
      fmt::format("{} needs {} bytes of workspace, more than the {} allowed", result.name, result.workspace, workspace_limit_);
  return std::nullopt;
}

std::optional<std::string> save(const EnginePlan& plan) {
  try {
    return plan.plan.get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<EnginePlan> restore(const CudnnApi& api, const CudnnTarget& target, const std::string& text) {
  try {
    Descriptor plan(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, text);
    aim(plan, target);
    plan.finalize();
    Descriptor config(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, std::span(&config, 1));
    return finish(api, std::move(config), std::move(plan));
  } catch (const Error&) {
    return std::nullopt;
  }
}

Descriptor describe_device(const CudnnApi& api, const std::string& json) {
  Descriptor properties(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a described device");
  properties.set_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json).finalize();
  return properties;
}

}  // namespace millrace::cuda
