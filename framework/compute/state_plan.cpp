#include "millrace/backend/state_plan.h"

#include <algorithm>

#include "millrace/backend/memory_planner.h"
#include "millrace/error.h"

namespace millrace {

Shape shape_of_state(StateShape shape, const Parameter& parameter) {
  const MatrixShape matrix = matrix_of(parameter);
  switch (shape) {
    case StateShape::element: return parameter.shape;
    case StateShape::rows: return {matrix.rows};
    case StateShape::columns: return {matrix.columns};
    case StateShape::scalar: break;
  }
  return {1};
}

void StatePlan::plan() {
  const std::vector<Bucket>& buckets = parameters_.buckets();
  for (int bucket = 0; !updates_.is_empty() && bucket < static_cast<int>(buckets.size()); ++bucket) {
    for (const UpdatePlan::Range& range : updates_.ranges(bucket)) plan_range(range);
  }
  const CompileOptions& options = parameters_.options();
  for (const std::string& name : options.request.copies) {
    State& copy = states_.emplace_back(State{.name = name, .elements = parameters_.blended(), .copy = true});
    for (std::size_t index = 0; index < parameters_.count(); ++index) {
      const std::size_t place = parameters_.offset(static_cast<int>(index));
      copy.places.push_back(place < parameters_.blended() ? place : kNowhere);
    }
  }
}

std::size_t StatePlan::index_of(const std::string& name) {
  const auto found = std::ranges::find(states_, name, &State::name);
  const auto index = static_cast<std::size_t>(found - states_.begin());
  if (found == states_.end())
    states_.push_back({.name = name, .places = std::vector<std::size_t>(parameters_.count(), kNowhere)});
  return index;
}

// Numbers of a reduced state are contiguous: rows one after the other, columns in whole packs.
std::size_t StatePlan::numbers_of(StateShape shape, int index) const {
  switch (shape) {
    case StateShape::element: return parameters_.elements(index);
    case StateShape::rows: return static_cast<std::size_t>(matrix_of(parameters_.parameter(index)).rows);
    case StateShape::columns: return static_cast<std::size_t>(column_packs(parameters_.width(index)) * kUpdatePack);
    case StateShape::scalar: break;
  }
  return 1;
}

void StatePlan::plan_range(const UpdatePlan::Range& range) {
  const std::size_t alignment = parameters_.alignment();
  std::vector<std::size_t>& own = states_of_[range.optimizer];
  own.clear();
  for (const OptimizerState& kept : range.optimizer->states()) {
    own.push_back(index_of(kept.name));
    State& state = states_[own.back()];
    const std::size_t begin = state.elements;
    for (const int index : range.parameters) {
      state.places[static_cast<std::size_t>(index)] = state.elements;
      const std::size_t numbers = numbers_of(kept.shape, index);
      state.elements += kept.shape == StateShape::element ? round_up(numbers, alignment) : numbers;
    }
    state.elements = round_up(state.elements, alignment);
    if (kept.initial != 0) state.initial.push_back({begin, state.elements - begin, kept.initial});
  }
}

std::vector<std::string> StatePlan::names() const {
  std::vector<std::string> names = {std::string(kValue)};
  if (parameters_.options().train_batch > 0) names.emplace_back(kGradient);
  for (const State& state : states_) {
    if (!state.copy || state.begun) names.push_back(state.name);
  }
  return names;
}

std::size_t StatePlan::find_copy(std::string_view name) const {
  const auto found = std::ranges::find_if(states_, [&](const State& state) { return state.copy && state.name == name; });
  if (found == states_.end()) fail(ErrorKind::usage, "copy '{}' of the weights does not exist: it was not requested", name);
  return static_cast<std::size_t>(found - states_.begin());
}

bool StatePlan::has(std::string_view name, int index) const {
  if (name == kValue) return true;
  if (name == kGradient) return parameters_.offset(index) + parameters_.elements(index) <= parameters_.gradients();
  const auto found = std::ranges::find(states_, name, &State::name);
  return found != states_.end() && found->places[static_cast<std::size_t>(index)] != kNowhere;
}

StateShape StatePlan::kind_of(std::string_view name, int index) const {
  const auto found = std::ranges::find(states_, name, &State::name);
  if (found == states_.end() || found->copy) return StateShape::element;
  return std::ranges::find(updates_.optimizer_of(index).states(), name, &OptimizerState::name)->shape;
}

std::optional<Shape> StatePlan::shape(std::string_view name, int index) const {
  if (!has(name, index)) return std::nullopt;
  return shape_of_state(kind_of(name, index), parameters_.parameter(index));
}

int StatePlan::find(std::string_view name, int index) const {
  if (!has(name, index)) fail(ErrorKind::usage, "parameter '{}' has no state '{}' here", parameters_.parameter(index).name, name);
  if (name == kValue) return kValues;
  if (name == kGradient) return kGradients;
  return static_cast<int>(std::ranges::find(states_, name, &State::name) - states_.begin());
}

std::size_t StatePlan::place(int state, int index) const {
  if (state < 0) return parameters_.offset(index);
  return states_[static_cast<std::size_t>(state)].places[static_cast<std::size_t>(index)];
}

void StatePlan::written(int state) {
  if (state >= 0) begin(static_cast<std::size_t>(state));
}

void StatePlan::check_size(std::string_view state, int index, std::span<const float> values) const {
  find(state, index);
  const auto expected = static_cast<std::size_t>(shape(state, index)->elements());
  if (values.size() == expected) return;
  fail(ErrorKind::usage, "state '{}' of parameter '{}' has {} values, not {}", state, parameters_.parameter(index).name, expected,
       values.size());
}

}  // namespace millrace
