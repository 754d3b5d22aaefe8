#include "millrace/backend/parameter_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/backend/buckets.h"
#include "millrace/backend/learning_phases.h"
#include "millrace/backend/memory_planner.h"
#include "millrace/error.h"

namespace millrace {

void check_update(const OptimizerSpec& update, const Network& network) {
  std::vector<std::string> vectors;
  std::string optimizer;
  for (std::size_t i = 0; i < network.parameters.size() && !update.optimizers.empty(); ++i) {
    const Parameter& parameter = network.parameters[i];
    const Optimizer& own = *update.optimizers[update.optimizer_of.empty() ? 0 : static_cast<std::size_t>(update.optimizer_of[i])];
    if (!parameter.trainable || parameter.statistic || own.scope() != OptimizerScope::matrix || parameter.shape.rank() > 1)
      continue;
    optimizer = own.name();
    vectors.push_back(parameter.name);
  }
  if (vectors.empty()) return;
  constexpr std::size_t kNamed = 4;
  const std::size_t named = std::min(vectors.size(), kNamed), others = vectors.size() - named;
  fail(ErrorKind::usage,
       "optimizer '{}' updates matrices, and '{}'{} {}; give another optimizer to all parameters that are no matrices: "
       "groups = [{{ vectors = true, type = \"adamw\" }}]",
       optimizer, fmt::join(vectors.begin(), vectors.begin() + static_cast<std::ptrdiff_t>(named), "', '"),
       others > 0 ? fmt::format(" and {} more", others) : "", vectors.size() == 1 ? "is a vector" : "are vectors");
}

MatrixShape matrix_of(const Parameter& parameter) {
  const std::int64_t rows = parameter.shape[0];
  return {rows, parameter.shape.elements() / rows};
}

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

void ParameterPlan::place_all(const std::vector<int>& indices, std::size_t alignment) {
  for (const int index : indices) {
    offsets_[static_cast<std::size_t>(index)] = all_;
    all_ += round_up(elements(index), alignment);
  }
}

void ParameterPlan::place(std::span<const std::size_t> elements, std::span<const std::int64_t> widths, std::size_t alignment) {
  elements_.assign(elements.begin(), elements.end());
  widths_.assign(widths.begin(), widths.end());
  offsets_.resize(elements_.size());
  check_update(update(), network_);
  const std::vector<double> until = backward_until(network_, options_.request);
  for (std::vector<int>& members : plan_buckets(network_, options_.bucket_bytes, until)) {
    const double until_epoch = until[static_cast<std::size_t>(members.front())];
    std::ranges::stable_sort(members, {}, [this](int index) { return optimizer_of(index); });
    const std::size_t begin = all_;
    place_all(members, alignment);
    std::vector<std::size_t> offsets;
    for (const int index : members) offsets.push_back(offset(index) - begin);
    buckets_.push_back({std::move(members), nullptr, all_ - begin, std::move(offsets), until_epoch});
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
  if (!update().optimizers.empty() && options_.train_batch > 0) plan_ranges(alignment);
  for (const std::string& name : options_.request.copies) {
    State& copy = states_.emplace_back(State{.name = name, .elements = blended_, .copy = true, .places = offsets_});
    for (std::size_t& place : copy.places) place = place < blended_ ? place : kNowhere;
  }
}

int ParameterPlan::optimizer_of(int index) const {
  return update().optimizer_of.empty() ? 0 : update().optimizer_of[static_cast<std::size_t>(index)];
}

void ParameterPlan::plan_ranges(std::size_t alignment) {
  for (const Bucket& bucket : buckets_) {
    std::vector<ParameterRange>& ranges = ranges_.emplace_back();
    for (const int index : bucket.parameters) {
      const Optimizer* optimizer = update().optimizers[static_cast<std::size_t>(optimizer_of(index))].get();
      if (ranges.empty() || ranges.back().optimizer != optimizer) ranges.push_back({.optimizer = optimizer});
      ranges.back().parameters.push_back(index);
      ranges.back().elements += round_up(elements(index), alignment);
      ranges.back().rows += matrix_of(parameter(index)).rows;
      ranges.back().column_packs += column_packs(widths_[static_cast<std::size_t>(index)]);
    }
    for (ParameterRange& range : ranges) plan_states(range, alignment);
  }
}

ParameterPlan::State& ParameterPlan::state_named(const std::string& name) {
  const auto found = std::ranges::find(states_, name, &State::name);
  if (found != states_.end()) return *found;
  return states_.emplace_back(State{.name = name, .places = std::vector<std::size_t>(elements_.size(), kNowhere)});
}

// Numbers of a reduced state lie side by side: rows one after the other, columns in whole packs.
std::size_t ParameterPlan::numbers_of(StateShape shape, int index) const {
  switch (shape) {
    case StateShape::element: return elements(index);
    case StateShape::rows: return static_cast<std::size_t>(matrix_of(parameter(index)).rows);
    case StateShape::columns:
      return static_cast<std::size_t>(column_packs(widths_[static_cast<std::size_t>(index)]) * kUpdatePack);
    case StateShape::scalar: break;
  }
  return 1;
}

void ParameterPlan::plan_states(ParameterRange& range, std::size_t alignment) {
  for (const OptimizerState& kept : range.optimizer->states()) {
    State& state = state_named(kept.name);
    const std::size_t begin = state.elements;
    for (const int index : range.parameters) {
      state.places[static_cast<std::size_t>(index)] = state.elements;
      const std::size_t numbers = numbers_of(kept.shape, index);
      state.elements += kept.shape == StateShape::element ? round_up(numbers, alignment) : numbers;
    }
    state.elements = round_up(state.elements, alignment);
    if (kept.initial != 0) state.initial.push_back({begin, state.elements - begin, kept.initial});
    range.states.push_back(static_cast<std::size_t>(&state - states_.data()));
  }
}

const std::vector<ParameterPlan::ParameterRange>& ParameterPlan::ranges(int bucket) const {
  if (ranges_.empty()) fail(ErrorKind::usage, "nothing is updated: the network was compiled without an optimizer");
  return ranges_[static_cast<std::size_t>(bucket)];
}

bool ParameterPlan::needs_norms() const {
  const auto has_norms = [](const ParameterRange& range) {
    return range.optimizer->scope() != OptimizerScope::element || range.optimizer->keeps_reduced();
  };
  return std::ranges::any_of(ranges_, [&](const auto& ranges) { return std::ranges::any_of(ranges, has_norms); });
}

bool ParameterPlan::is_matrix(int index) const {
  if (ranges_.empty() || !parameter(index).trainable || parameter(index).statistic) return false;
  return update().optimizers[static_cast<std::size_t>(optimizer_of(index))]->scope() == OptimizerScope::matrix;
}

UpdateSegment ParameterPlan::segment(int index, std::span<const double> rate_factor, double rate) const {
  const auto i = static_cast<std::size_t>(index);
  const std::span<const double> factors = rate_factor.empty() ? std::span<const double>(update().rate_factor) : rate_factor;
  const MatrixShape shape = matrix_of(parameter(index));
  UpdateSegment segment;
  segment.rate_factor = static_cast<float>((factors.empty() ? 1.0 : factors[i]) * rate);
  segment.decay = update().decay.empty() ? 0.0F : static_cast<float>(update().decay[i]);
  segment.rows = static_cast<std::int32_t>(shape.rows);
  segment.columns = static_cast<std::int32_t>(shape.columns);
  segment.width = widths_[i];
  return segment;
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

bool ParameterPlan::has_state(std::string_view name, int index) const {
  if (name == kValue) return true;
  if (name == kGradient) return offset(index) + elements(index) <= gradients();
  const auto found = std::ranges::find(states_, name, &State::name);
  return found != states_.end() && found->places[static_cast<std::size_t>(index)] != kNowhere;
}

StateShape ParameterPlan::kind_of(std::string_view name, int index) const {
  const auto found = std::ranges::find(states_, name, &State::name);
  if (found == states_.end() || found->copy) return StateShape::element;
  const Optimizer& optimizer = *update().optimizers[static_cast<std::size_t>(optimizer_of(index))];
  return std::ranges::find(optimizer.states(), name, &OptimizerState::name)->shape;
}

std::optional<Shape> ParameterPlan::state_shape(std::string_view name, int index) const {
  if (!has_state(name, index)) return std::nullopt;
  return shape_of_state(kind_of(name, index), parameter(index));
}

int ParameterPlan::find_state(std::string_view name, int index) const {
  if (!has_state(name, index)) fail(ErrorKind::usage, "parameter '{}' has no state '{}' here", parameter(index).name, name);
  if (name == kValue) return kValues;
  if (name == kGradient) return kGradients;
  return static_cast<int>(std::ranges::find(states_, name, &State::name) - states_.begin());
}

std::size_t ParameterPlan::place(int state, int index) const {
  return state < 0 ? offset(index) : states_[static_cast<std::size_t>(state)].places[static_cast<std::size_t>(index)];
}

void ParameterPlan::check_size(std::string_view state, int index, std::span<const float> values) const {
  find_state(state, index);
  const auto expected = static_cast<std::size_t>(state_shape(state, index)->elements());
  if (values.size() == expected) return;
  fail(ErrorKind::usage, "state '{}' of parameter '{}' has {} values, not {}", state, parameter(index).name, expected,
       values.size());
}

void ParameterPlan::written(int state) {
  if (state >= 0) states_[static_cast<std::size_t>(state)].begun = true;
}

void ParameterPlan::append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms, std::size_t workspace) const {
  const auto add = [&](const std::string& what, std::size_t bytes) {
    if (bytes > 0) plan.items.push_back({what, bytes});
  };
  add("weights", all_ * sizeof(float));
  add("weights in bf16", bf16 * sizeof(std::uint16_t));
  add("gradients of weights", gradients() * sizeof(float));
  add("gradients of earlier pieces", kept_gradients() * sizeof(float));
  for (const State& state : states_) add(state.name + " of weights", state.elements * sizeof(float));
  add("norms of parameters", norms);
  add("workspace of updates", workspace);
}

}  // namespace millrace
