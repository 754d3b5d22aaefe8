#include "engines.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "device.h"

namespace millrace::gpu {
namespace {

constexpr int kMostOfOne = 3;  // configurations of one engine
constexpr std::size_t kMostSaid = 400;
constexpr std::size_t kMostNotes = 32;  // more than there are

constexpr const char* kH100 = R"({
  "version": 1, "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
  "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
  "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 85014675456, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800})";

const char* text_of(cudnnBackendBehaviorNote_t note) {
  switch (note) {
    case CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION: return "runtime compilation";
    case CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER: return "filter int8x32 reorder";
    case CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER: return "bias int8x32 reorder";
    case CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API: return "native CUDA graphs";
    case CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY: return "cuBLASLt";
    default: return "unknown";
  }
}

const char* text_of(cudnnBackendNumericalNote_t note) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return "tensor core";
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return "down-converts inputs";
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return "reduced precision reduction";
    case CUDNN_NUMERICAL_NOTE_FFT: return "FFT";
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return "not deterministic";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD: return "Winograd";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4: return "Winograd 4x4";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6: return "Winograd 6x6";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return "Winograd 13x13";
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: return "keeps NaN";
    default: return "unknown";
  }
}

template <class Note>
Json texts(const std::vector<Note>& notes) {
  Json result = Json::array();
  for (const Note note : notes) result.push_back(text_of(note));
  return result;
}

std::string knobs_text(const CudnnApi& api, const Descriptor& config) {
  std::vector<Descriptor> choices;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) choices.emplace_back(api, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  const auto found = static_cast<std::size_t>(config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices));
  std::map<int, std::int64_t> knobs;
  for (std::size_t i = 0; i < std::min(found, choices.size()); ++i) {
    knobs[choices[i].get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)] =
        choices[i].get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  }
  std::string text;
  for (const auto& [type, value] : knobs) text += fmt::format(" {}={}", type, value);
  return text;
}

Candidate describe(const CudnnApi& api, Descriptor config, const char* from) {
  Descriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, std::span(&engine, 1));
  const auto number = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const auto behaviour = engine.get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, kMostNotes);
  const auto numerics = engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kMostNotes);
  std::string choice = std::to_string(number) + knobs_text(api, config);
  Json report = {{"engine", number}, {"choice", choice}, {"from", from}};
  report["behaviour"] = texts(behaviour);
  report["numerics"] = texts(numerics);
  const bool compiled = std::find(behaviour.begin(), behaviour.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behaviour.end();
  return {std::move(config), number, std::move(choice), compiled, std::move(report)};
}

std::vector<Descriptor> heuristics(const CudnnApi& api, const OperationGraph& graph, const CudnnTarget& target,
                                   cudnnBackendHeurMode_t mode, std::string& why_not) {
  Descriptor asked(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, graph.about());
  asked.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.native()).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.properties != nullptr) asked.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  if (!asked.try_finalize(why_not)) return {};
  std::vector<Descriptor> configs;
  const std::int64_t count = asked.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  for (std::int64_t i = 0; i < count; ++i) configs.emplace_back(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, graph.about());
  const std::int64_t found = count == 0 ? 0 : asked.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, configs);
  while (static_cast<std::int64_t>(configs.size()) > found) configs.pop_back();
  return configs;
}

// An engine as it is by default. Nothing: it does not take this graph.
std::optional<Descriptor> by_default(const CudnnApi& api, const OperationGraph& graph, const CudnnTarget& target,
                                     std::int64_t number, std::string& why_not) {
  Descriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR, graph.about());
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.native()).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number);
  if (target.properties != nullptr) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.properties);
  if (!engine.try_finalize(why_not)) return std::nullopt;
  Descriptor config(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, graph.about());
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!config.try_finalize(why_not)) return std::nullopt;
  return config;
}

}  // namespace

Descriptor described_device(const CudnnApi& api) {
  Descriptor properties(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a described device");
  properties.set_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, kH100).finalize();
  return properties;
}

Engines engines_of(const CudnnApi& api, const OperationGraph& graph, const CudnnTarget& target) {
  Engines engines;
  std::map<std::int64_t, int> listed;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (Descriptor& config : heuristics(api, graph, target, mode, engines.why_no_heuristics)) {
      Candidate candidate = describe(api, std::move(config), mode == CUDNN_HEUR_MODE_A ? "heuristics" : "fallback");
      if (++listed[candidate.engine] <= kMostOfOne) engines.candidates.push_back(std::move(candidate));
    }
  }
  engines.known = graph.native().get<std::int64_t>(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
  for (std::int64_t number = 0; number < engines.known; ++number) {
    std::string why_not;
    auto config = by_default(api, graph, target, number, why_not);
    if (!config) {
      engines.refusals[why_not.substr(0, why_not.find(':'))].push_back(number);  // without the log behind it
      continue;
    }
    engines.supporting.push_back(number);
    if (listed[number] == 0) engines.candidates.push_back(describe(api, std::move(*config), "default"));
  }
  return engines;
}

std::optional<ReadyEngine> make_ready(const CudnnApi& api, const OperationGraph& graph, const CudnnTarget& target,
                                      Candidate& candidate) {
  const Stopwatch watch;
  Descriptor plan(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, graph.about());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate.config);
  if (target.handle != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  if (target.properties != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  std::string why_not;
  const bool made = plan.try_finalize(why_not);
  candidate.report["finalise_ms"] = rounded(watch.milliseconds());
  if (!made) {
    candidate.report["why"] = why_not.substr(0, kMostSaid);
    return std::nullopt;
  }
  const auto workspace = plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  candidate.report["workspace"] = workspace;
  return ReadyEngine{std::move(plan), static_cast<std::size_t>(workspace)};
}

}  // namespace millrace::gpu
