#include "millrace/parameter_plan.h"

#include <algorithm>

#include "millrace/buckets.h"
#include "millrace/error.h"
#include "millrace/memory_planner.h"

namespace millrace {

void ParameterPlan::place_all(const std::vector<int>& indices, std::size_t alignment) {
  for (const int index : indices) {
    offsets_[static_cast<std::size_t>(index)] = all_;
    all_ += round_up(elements(index), alignment);
  }
}

void ParameterPlan::place(std::span<const std::size_t> elements, std::size_t alignment) {
  elements_.assign(elements.begin(), elements.end());
  offsets_.resize(elements_.size());
  for (std::vector<int>& members : plan_buckets(network_, options_.bucket_bytes)) {
    const std::size_t begin = all_;
    place_all(members, alignment);
    buckets_.push_back({std::move(members), nullptr, all_ - begin});
  }
  trainable_ = all_;
  std::vector<int> statistics, frozen;
  for (int index = 0; index < static_cast<int>(elements_.size()); ++index) {
    if (parameter(index).statistic)
      statistics.push_back(index);
    else if (!parameter(index).trainable)
      frozen.push_back(index);
  }
  place_all(statistics, alignment);
  blended_ = all_;
  place_all(frozen, alignment);
  plan_states();
}

void ParameterPlan::plan_states() {
  const CompileRequest& request = options_.request;
  if (request.update.rule && options_.train_batch > 0) {
    for (const RuleState& state : request.update.rule->states()) states_.push_back({state.name, state.initial, trainable_});
  }
  for (const std::string& name : request.copies) states_.push_back({.name = name, .elements = blended_, .copy = true});
}

const UpdateRule& ParameterPlan::update_or_fail() const {
  if (!update().rule) fail(ErrorKind::usage, "nothing is updated: the network was compiled without an update rule");
  return update();
}

bool ParameterPlan::needs_norms() const {
  return update().rule && update().rule->scope() == RuleScope::parameter && options_.train_batch > 0;
}

std::vector<std::string> ParameterPlan::state_names() const {
  std::vector<std::string> names = {std::string(kValue)};
  if (options_.train_batch > 0) names.emplace_back(kGradient);
  for (const State& state : states_) {
    if (!state.copy || state.begun) names.push_back(state.name);
  }
  return names;
}

std::size_t ParameterPlan::find_copy(std::string_view name) const {
  const auto found = std::ranges::find_if(states_, [&](const State& state) { return state.copy && state.name == name; });
  if (found == states_.end()) fail(ErrorKind::usage, "there is no copy '{}' of the weights: it was not asked for", name);
  return static_cast<std::size_t>(found - states_.begin());
}

int ParameterPlan::find_state(std::string_view name, int parameter_index) const {
  const auto found = std::ranges::find(states_, name, &State::name);
  const int state = name == kValue ? kValues : name == kGradient ? kGradients : static_cast<int>(found - states_.begin());
  std::size_t there = 0;  // elements of that array
  if (state == kValues) there = all_;
  if (state == kGradients) there = gradients();
  if (state >= 0 && found != states_.end()) there = found->elements;
  if (offset(parameter_index) + elements(parameter_index) > there) {
    fail(ErrorKind::usage, "parameter '{}' has no state '{}' here", parameter(parameter_index).name, name);
  }
  return state;
}

void ParameterPlan::check_size(int index, std::span<const float> values) const {
  const auto expected = static_cast<std::size_t>(parameter(index).shape.elements());
  if (values.size() == expected) return;
  fail(ErrorKind::usage, "parameter '{}' has {} values, not {}", parameter(index).name, expected, values.size());
}

void ParameterPlan::written(int state) {
  if (state >= 0) states_[static_cast<std::size_t>(state)].begun = true;
}

void ParameterPlan::append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms) const {
  const auto add = [&](const std::string& what, std::size_t bytes) {
    if (bytes > 0) plan.items.push_back({what, bytes});
  };
  add("weights", all_ * sizeof(float));
  add("weights in bf16", bf16 * sizeof(std::uint16_t));
  add("gradients of weights", gradients() * sizeof(float));
  add("gradients of earlier pieces", kept_gradients() * sizeof(float));
  for (const State& state : states_) add(state.name + " of weights", state.elements * sizeof(float));
  add("norms of parameters", norms);
}

}  // namespace millrace
