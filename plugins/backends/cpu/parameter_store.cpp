#include "parameter_store.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "kernels/kernels.h"
#include "kernels/run_kernel.h"
#include "map_spec.h"
#include "millrace/error.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

constexpr std::size_t kFloatsPerLine = kAlignment / sizeof(float);

}  // namespace

WeightLayouts::WeightLayouts(const Network& network) : entries_(network.parameters.size()) {
  for (std::size_t index = 0; index < entries_.size(); ++index) {
    entries_[index].elements = static_cast<std::size_t>(network.parameters[index].shape.elements());
  }
}

void WeightLayouts::set(int parameter, const dnnl::memory::desc& layout, const dnnl::memory::desc& canonical) {
  Entry& target = entries_[static_cast<std::size_t>(parameter)];
  const std::optional<dnnl::memory::desc> twin = in_type(layout, dnnl::memory::data_type::f32);
  target.held = twin.value_or(canonical);
  target.computed = twin ? layout : *in_type(canonical, type_of(layout));
  target.canonical = canonical;
  target.elements = target.held.get_size() / sizeof(float);
}

void WeightLayouts::to_canonical(int parameter, const float* held, float* canonical, const dnnl::engine& engine) const {
  rearrange(entry(parameter).held, held, entry(parameter).canonical, canonical, engine);
}

void WeightLayouts::from_canonical(int parameter, const float* canonical, float* held, const dnnl::engine& engine) const {
  rearrange(entry(parameter).canonical, canonical, entry(parameter).held, held, engine);
}

void ParameterStore::finish_planning(const PrimitiveChecks& checks) {
  std::vector<std::size_t> elements;
  std::vector<std::int64_t> widths;  // matrices are updated in the network's order
  for (int index = 0; index < count(); ++index) {
    elements.push_back(layouts_.elements(index));
    if (layouts_.has(index)) checks.require_right_copies(layouts_.held(index), layouts_.canonical(index));
  }
  for (const Parameter& each : network_.parameters) widths.push_back(matrix_of(each).columns);
  plan_.plan(elements, widths, kFloatsPerLine);
  plan_bf16_values();
  if (!plan_.updates.needs_norms()) return;
  for (int index = 0; index < count(); ++index) {
    const std::int64_t chunks = chunks_of_norms(static_cast<std::int64_t>(layouts_.elements(index)) / kUpdatePack + 1);
    norms_.resize(std::max(norms_.size(), static_cast<std::size_t>(chunks) + 1));
  }
  for (int index = 0; index < count(); ++index) {
    if (!plan_.updates.is_matrix(index)) continue;
    orthogonaliser_.add(matrix_of(plan_.parameters.parameter(index)), checks);
    most_directions_ = std::max(most_directions_, round_up(layouts_.elements(index), kFloatsPerLine));
  }
  plan_workspace();
}

void ParameterStore::plan_bf16_values() {
  bf16_offsets_.resize(network_.parameters.size());
  for (int index = 0; index < count(); ++index) {
    if (options_.precision != Precision::bf16 || !layouts_.has(index)) continue;
    bf16_offsets_[static_cast<std::size_t>(index)] = bf16_;
    bf16_ += 2 * round_up((layouts_.elements(index) + 1) / 2, kFloatsPerLine);
  }
}

// A parameter with a layout is rearranged if its optimizer works on rows and columns: directions of a matrix; value, gradient and
// elementwise states in addition to reduced states.
void ParameterStore::plan_workspace() {
  for (int bucket = 0; bucket < static_cast<int>(plan_.parameters.buckets().size()); ++bucket) {
    for (const UpdatePlan::Range& range : plan_.updates.ranges(bucket)) {
      const Optimizer& optimizer = *range.optimizer;
      std::size_t arrays = optimizer.scope() == OptimizerScope::matrix ? 1 : optimizer.keeps_reduced() ? 2 : 0;
      for (const OptimizerState& state : optimizer.states()) {
        if (optimizer.keeps_reduced() && state.shape == StateShape::element) ++arrays;
      }
      for (const int index : range.parameters) {
        if (!layouts_.has(index)) continue;
        most_rearranged_ = std::max(most_rearranged_, arrays * round_up(layouts_.canonical_elements(index), kFloatsPerLine));
      }
    }
  }
}

PreparedWeights& ParameterStore::prepare(const Layer& conv, const Layer* norm, const std::string& form, std::size_t bytes,
                                         std::function<void(const float* weights, void* to)> fill) {
  const auto same = [&](const PreparedWeights& each) { return each.conv == &conv && each.form == form; };
  if (const auto found = std::ranges::find_if(prepared_, same); found != prepared_.end()) return *found;
  prepared_.push_back({&conv, norm, form, bytes, std::move(fill), nullptr, nullptr, 0});
  if (!started_) return prepared_.back();
  place(prepared_.back(), later_memory_.emplace_back(prepared_.back().all_bytes()).as<std::byte>());
  return prepared_.back();
}

std::size_t ParameterStore::prepared_bytes() const {
  std::size_t bytes = 0;
  for (const PreparedWeights& each : prepared_) bytes += each.all_bytes();
  return bytes;
}

std::byte* ParameterStore::place(PreparedWeights& prepared, std::byte* memory) {
  prepared.weights = memory;
  prepared.bias = reinterpret_cast<float*>(memory + aligned(prepared.bytes));
  return memory + prepared.all_bytes();
}

void ParameterStore::refresh(PreparedWeights& prepared, const dnnl::engine& engine) {
  if (prepared.version == version_) return;
  const std::vector<int>& parameters = prepared.conv->parameters;
  std::vector<float> weights = read(kValue, parameters[0], engine);
  const std::size_t channels = prepared.channels(), each = weights.size() / channels;
  const std::span<float> bias(prepared.bias, channels);
  std::ranges::fill(bias, 0.0F);
  if (parameters.size() > 1) std::copy_n(value(parameters[1]), channels, bias.begin());
  if (prepared.norm != nullptr) {
    const NormaliseArguments norm = normalise_arguments(*this, *prepared.norm);
    for (std::size_t c = 0; c < channels; ++c) {
      const double deviation = std::sqrt(double{norm.variance[c]} + double{norm.epsilon});
      const double scale = (norm.scale == nullptr ? 1 : double{norm.scale[c]}) / deviation;
      for (float& weight : std::span(weights).subspan(c * each, each)) weight = static_cast<float>(double{weight} * scale);
      const double shift = norm.shift == nullptr ? 0 : double{norm.shift[c]};
      bias[c] = static_cast<float>((double{bias[c]} - double{norm.mean[c]}) * scale + shift);
    }
  }
  prepared.fill(weights.data(), prepared.weights);
  prepared.version = version_;
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  const std::size_t directions = (most_directions_ + most_rearranged_) * sizeof(float);
  plan_.append_to(plan, bf16_, norms_.size() * sizeof(Squares), directions + orthogonaliser_.bytes());
  if (const std::size_t prepared = prepared_bytes(); prepared > 0)
    plan.items.push_back({"weights prepared for kernels", prepared});
}

void ParameterStore::start() {
  allocate([](std::size_t bytes, const std::string&) { return MemoryRegion(bytes); },
           [](float* to, std::size_t elements, float value) { std::fill_n(to, elements, value); });
  bf16_values_ = MemoryRegion(bf16_ * sizeof(std::uint16_t));
  directions_ = MemoryRegion(most_directions_ * sizeof(float));
  rearranged_ = MemoryRegion(most_rearranged_ * sizeof(float));
  orthogonaliser_.start();
  prepared_memory_ = MemoryRegion(prepared_bytes());
  auto* free = prepared_memory_.as<std::byte>();
  for (PreparedWeights& each : prepared_) free = place(each, free);
  started_ = true;
}

void ParameterStore::add_kept_gradients(int bucket) {
  add_kept(bucket, [](float* to, const auto& both, std::size_t elements) { kernels().sum(to, both.data(), 2, elements); });
}

std::uint16_t* ParameterStore::bf16_value(int index) {
  const bool kept = options_.precision == Precision::bf16 && layouts_.has(index);
  return kept ? bf16_values_.as<std::uint16_t>() + bf16_offsets_[static_cast<std::size_t>(index)] : nullptr;
}

// Everything is padded to whole cache lines, so an array's last pack is complete too.
UpdateArguments ParameterStore::arguments_of(int index, const UpdatePlan::Range& range) {
  UpdateArguments arguments = arrays_at(index, *range.optimizer);
  arguments.direction = directions_.bytes() > 0 ? directions_.as<float>() : nullptr;
  arguments.bf16 = reinterpret_cast<Bf16*>(bf16_value(index));
  arguments.packs = static_cast<std::int64_t>(layouts_.elements(index) + kUpdatePack - 1) / kUpdatePack;
  const MatrixShape matrix = matrix_of(plan_.parameters.parameter(index));
  arguments.rows = matrix.rows;
  arguments.column_packs = column_packs(matrix.columns);
  if (norms_.empty()) return arguments;
  arguments.chunks = chunks_of_norms(arguments.packs);
  arguments.squares = norms_.data();
  arguments.partial_squares = norms_.data() + 1;
  return arguments;
}

void* ParameterStore::computed_value(int index) {
  if (options_.precision == Precision::bf16) return bf16_value(index);
  return value(index);
}

void ParameterStore::update(int bucket, const UpdateStep& step) {
  values_changed();
  for (const UpdatePlan::Range& range : plan_.updates.ranges(bucket)) {
    for (const int index : range.parameters) update(index, range, step);
  }
}

void ParameterStore::update(int index, const UpdatePlan::Range& range, const UpdateStep& step) {
  const Optimizer& optimizer = *range.optimizer;
  const UpdateSegment segment =
      plan_.updates.segment(index, step.rate_factor, step.learning_rate);  // for a single parameter: the whole rate
  UpdateArguments arguments = arguments_of(index, range);
  arguments.learning_rate = 1;
  arguments.scale = step.scale;
  arguments.wrong = step.wrong;
  arguments.segments = &segment;
  arguments.segment_count = 1;
  if (optimizer.scope() == OptimizerScope::matrix) {
    optimizer.directions(arguments, step, run_kernel);
    orthogonalise(index, optimizer);
  }
  if (!optimizer.keeps_reduced() || !layouts_.has(index)) return optimizer.update(arguments, step, run_kernel);
  const UpdateArguments rows = in_rows(index, optimizer, arguments);
  optimizer.update(rows, step, run_kernel);
  put_back(index, optimizer, rows, arguments);
}

// Copies, in row order, of the arrays that an optimizer with reduced states uses. Zeros after the last element.
UpdateArguments ParameterStore::in_rows(int index, const Optimizer& optimizer, const UpdateArguments& at) {
  const std::size_t elements = layouts_.canonical_elements(index), stride = round_up(elements, kFloatsPerLine);
  auto* free = rearranged_.as<float>();
  const auto copy_of = [&](const float* array) {
    float* const copy = std::exchange(free, free + stride);
    layouts_.to_canonical(index, array, copy, orthogonaliser_.engine());
    std::fill(copy + elements, copy + stride, 0.0F);
    return copy;
  };
  UpdateArguments rows = at;
  rows.value = copy_of(at.value);
  rows.gradient = copy_of(at.gradient);
  for (std::size_t s = 0; s < optimizer.states().size(); ++s) {
    if (optimizer.states()[s].shape == StateShape::element) rows.states[s] = copy_of(at.states[s]);
  }
  rows.bf16 = nullptr;
  rows.packs = static_cast<std::int64_t>(elements + kUpdatePack - 1) / kUpdatePack;
  rows.chunks = chunks_of_norms(rows.packs);
  return rows;
}

void ParameterStore::put_back(int index, const Optimizer& optimizer, const UpdateArguments& from, const UpdateArguments& to) {
  const dnnl::engine& engine = orthogonaliser_.engine();
  layouts_.from_canonical(index, from.value, to.value, engine);
  for (std::size_t s = 0; s < optimizer.states().size(); ++s) {
    if (optimizer.states()[s].shape == StateShape::element) layouts_.from_canonical(index, from.states[s], to.states[s], engine);
  }
  refresh_bf16(index);
}

// Directions have the parameter's layout; in the network's layout they are a matrix.
void ParameterStore::orthogonalise(int index, const Optimizer& optimizer) {
  const MatrixShape shape = matrix_of(plan_.parameters.parameter(index));
  const dnnl::engine& engine = orthogonaliser_.engine();
  if (!layouts_.has(index)) return orthogonaliser_.run(directions_.as<float>(), norms_.data(), shape, optimizer.newton_schulz());
  layouts_.to_canonical(index, directions_.as<float>(), rearranged_.as<float>(), engine);
  orthogonaliser_.run(rearranged_.as<float>(), norms_.data(), shape, optimizer.newton_schulz());
  layouts_.from_canonical(index, rearranged_.as<float>(), directions_.as<float>(), engine);
}

void ParameterStore::lerp_into(std::string_view copy, double decay, bool write_back) {
  values_changed();
  blend_into(host_queue, copy, decay, [&](float* blended) {
    kernels().blend(values_.as<float>(), blended, decay, write_back, plan_.parameters.blended());
    if (write_back) refresh_all_bf16();
  });
}

void ParameterStore::swap_with(std::string_view copy) {
  float* const begun = begun_copy(copy);
  if (begun == nullptr) return;
  values_changed();
  std::swap_ranges(values_.as<float>(), values_.as<float>() + plan_.parameters.blended(), begun);
  refresh_all_bf16();
}

void ParameterStore::refresh_bf16(int index) {
  if (std::uint16_t* copy = bf16_value(index)) kernels().to_bf16(value(index), copy, layouts_.elements(index));
}

void ParameterStore::refresh_all_bf16() {
  for (int index = 0; index < count(); ++index) refresh_bf16(index);
}

std::vector<float> ParameterStore::read(std::string_view state, int index, const dnnl::engine& engine) {
  const float* source = state_of(state, index);
  std::vector<float> values(static_cast<std::size_t>(plan_.states.shape(state, index)->elements()));
  if (layouts_.has(index) && plan_.states.kind_of(state, index) == StateShape::element) {
    layouts_.to_canonical(index, source, values.data(), engine);
  } else {
    std::copy_n(source, values.size(), values.begin());
  }
  return values;
}

void ParameterStore::write(std::string_view state, int index, std::span<const float> values, const dnnl::engine& engine) {
  plan_.states.check_size(state, index, values);
  float* destination = state_of(state, index);
  if (layouts_.has(index) && plan_.states.kind_of(state, index) == StateShape::element) {
    layouts_.from_canonical(index, values.data(), destination, engine);
  } else {
    std::copy(values.begin(), values.end(), destination);
  }
  values_changed();
  if (state == kValue) refresh_bf16(index);
  plan_.states.written(plan_.states.find(state, index));
}

}  // namespace millrace::cpu
