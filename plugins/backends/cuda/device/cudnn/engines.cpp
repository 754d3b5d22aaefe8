#include "engines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::array kModes{CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};

Descriptor engine_of(const CudnnApi& api, const Descriptor& config) {
  Descriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, std::span(&engine, 1));
  return engine;
}

EngineNotes notes_of(const Descriptor& engine) {
  return {engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT),
          engine.get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT)};
}

void aim(Descriptor& plan, const CudnnTarget& target) {
  if (target.handle != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  if (target.properties != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
}

using Knob = std::pair<std::int64_t, std::int64_t>;  // type and value

std::vector<Knob> knobs_of(const CudnnApi& api, const Descriptor& config) {
  std::vector<Descriptor> choices;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) choices.emplace_back(api, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  const auto found = static_cast<std::size_t>(config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices));
  while (choices.size() > found) choices.pop_back();
  std::vector<Knob> knobs;
  for (const Descriptor& choice : choices) {
    knobs.emplace_back(choice.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                       choice.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  std::sort(knobs.begin(), knobs.end());
  return knobs;
}

struct EngineChoice {
  std::int64_t engine = 0;
  std::vector<Knob> knobs;
};

std::string encode(const EngineChoice& choice) {
  std::string text = std::to_string(choice.engine);
  for (const auto& [type, value] : choice.knobs) text += fmt::format(" {}={}", type, value);
  return text;
}

std::string choice_of(const CudnnApi& api, const Descriptor& config) {
  return encode({engine_of(api, config).get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), knobs_of(api, config)});
}

std::optional<EngineChoice> decode(std::string_view text) {
  const auto take = [&](std::int64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  const auto skip = [&](char character) {
    if (!text.starts_with(character)) return false;
    text.remove_prefix(1);
    return true;
  };
  EngineChoice choice;
  if (!take(choice.engine)) return std::nullopt;
  while (!text.empty()) {
    Knob knob;
    if (!skip(' ') || !take(knob.first) || !skip('=') || !take(knob.second)) return std::nullopt;
    choice.knobs.push_back(knob);
  }
  if (choice.engine < 0 || choice.knobs.size() > CUDNN_KNOB_TYPE_COUNTS) return std::nullopt;
  return choice;
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
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:                                  // lose more digits than TF32
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return true;
      default: return false;
    }
  });
}

bool EngineNotes::compiled() const {
  return std::find(behavior.begin(), behavior.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behavior.end();
}

std::string EngineGate::refuse(const EngineNotes& notes) {
  if (!rules_.allow(notes.numerical)) return "its engines round more than is allowed, or are not deterministic";
  if (!notes.compiled()) return {};
  if (compiled_ == rules_.most_compiled) return "the code of its other engines would have to be compiled first";
  ++compiled_;
  return {};
}

EngineSearch::EngineSearch(const CudnnApi& api, const ConvolutionGraph& graph, const CudnnTarget& target,
                           const EngineRules& rules, std::size_t workspace_limit)
    : api_(api), graph_(graph), target_(target), gate_(rules), workspace_limit_(workspace_limit) {}

std::optional<Descriptor> EngineSearch::next() {
  for (;;) {
    while (config_ < configs_.size()) {
      Descriptor config = std::move(configs_[config_++]);
      if (given_.insert(choice_of(api_, config)).second) return config;
    }
    if (mode_ == kModes.size()) return std::nullopt;
    ask(kModes[mode_++]);
  }
}

void EngineSearch::ask(cudnnBackendHeurMode_t mode) {
  configs_.clear();
  config_ = 0;
  Descriptor heuristics(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, graph_.about());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_.native()).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target_.properties != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target_.properties);
  if (!heuristics.try_finalize(why_not_)) return;
  const std::int64_t count = heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  for (std::int64_t i = 0; i < count; ++i) configs_.emplace_back(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, graph_.about());
  const std::int64_t found = count == 0 ? 0 : heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, configs_);
  while (static_cast<std::int64_t>(configs_.size()) > found) configs_.pop_back();
}

bool EngineSearch::allows(const Descriptor& config) {
  std::string reason = gate_.refuse(notes_of(engine_of(api_, config)));
  if (reason.empty()) return true;
  why_not_ = std::move(reason);
  return false;
}

std::optional<EnginePlan> EngineSearch::accept(Descriptor config) {
  if (!allows(config)) return std::nullopt;
  Descriptor plan(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, graph_.about());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  aim(plan, target_);
  if (!plan.try_finalize(why_not_)) return std::nullopt;
  return finish(std::move(config), std::move(plan));
}

std::optional<EnginePlan> EngineSearch::finish(Descriptor config, Descriptor plan) {
  const Descriptor engine = engine_of(api_, config);
  const auto number = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const auto workspace = static_cast<std::size_t>(plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  std::string name = fmt::format("cuDNN engine {}", number);
  if (workspace > workspace_limit_) {
    why_not_ = fmt::format("{} needs {} bytes of workspace, more than the {} allowed", name, workspace, workspace_limit_);
    return std::nullopt;
  }
  const bool compiled = notes_of(engine).compiled();
  std::string choice = choice_of(api_, config);
  return EnginePlan{std::move(config), std::move(plan), workspace, std::move(name), std::move(choice), compiled};
}

std::optional<EnginePlan> EngineSearch::take(const std::string& choice) {
  const auto wanted = decode(choice);
  if (!wanted) return std::nullopt;
  try {
    Descriptor engine(api_, CUDNN_BACKEND_ENGINE_DESCRIPTOR, graph_.about());
    engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_.native()).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, wanted->engine);
    if (target_.properties != nullptr) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target_.properties);
    engine.finalize();
    std::deque<Descriptor> knobs;
    std::vector<const Descriptor*> set;
    for (const auto& [type, value] : wanted->knobs) {
      Descriptor& knob = knobs.emplace_back(api_, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, graph_.about());
      knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
          .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
          .finalize();
      set.push_back(&knob);
    }
    Descriptor config(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, graph_.about());
    config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (!set.empty()) config.set_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, set);
    config.finalize();
    return accept(std::move(config));
  } catch (const Error& error) {
    why_not_ = error.message();
    return std::nullopt;
  }
}

std::optional<EnginePlan> EngineSearch::take_compiled(const std::string& choice, const std::string& compiled) {
  try {
    Descriptor plan(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, graph_.about());
    plan.set_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, compiled);  // before the handle, as in NVIDIA's own front end
    aim(plan, target_);
    plan.finalize();
    Descriptor config(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, graph_.about());
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, std::span(&config, 1));
    if (!allows(config)) return std::nullopt;
    auto result = finish(std::move(config), std::move(plan));
    return result && result->choice == choice ? std::move(result) : std::nullopt;
  } catch (const Error& error) {
    why_not_ = error.message();
    return std::nullopt;
  }
}

std::optional<std::string> write_compiled(const EnginePlan& plan) {
  try {
    return plan.plan.get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace millrace::cuda
