#include "parameter_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/kernels.h"
#include "kernels/run_kernel.h"
#include "planner.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

constexpr std::size_t kFloatsPerLine = kAlignment / sizeof(float);

// Copies between a layout and the network's own order.
void rearrange(const dnnl::memory::desc& from, const void* source, const dnnl::memory::desc& to, void* destination,
               const dnnl::engine& engine) {
  dnnl::memory in(from, engine, const_cast<void*>(source));  // NOLINT: oneDNN has no memory of constants
  dnnl::memory out(to, engine, destination);
  dnnl::stream stream(engine);
  dnnl::reorder(in, out).execute(stream, in, out);
  stream.wait();
}

}  // namespace

ParameterStore::ParameterStore(const Network& network, const CompileOptions& options)
    : network_(network), options_(options), entries_(network.parameters.size()) {
  for (std::size_t index = 0; index < entries_.size(); ++index) {
    entries_[index].elements = static_cast<std::size_t>(network.parameters[index].shape.elements());
  }
}

void ParameterStore::set_layout(int index, const dnnl::memory::desc& layout, const dnnl::memory::desc& canonical) {
  Entry& target = entry(index);
  const std::optional<dnnl::memory::desc> twin = in_type(layout, dnnl::memory::data_type::f32);
  target.layout = twin.value_or(canonical);
  target.computed = twin ? layout : *in_type(canonical, type_of(layout));
  target.canonical = canonical;
  target.elements = target.layout.get_size() / sizeof(float);
}

void ParameterStore::finish_planning(const PrimitiveChecks& checks) {
  std::vector<std::size_t> elements;
  std::vector<std::int64_t> widths;  // matrices are updated in the network's order
  for (const Entry& each : entries_) elements.push_back(each.elements);
  for (const Parameter& each : network_.parameters) widths.push_back(matrix_of(each).columns);
  plan_.place(elements, widths, kFloatsPerLine);
  for (Entry& target : entries_) {
    if (options_.precision != Precision::bf16 || target.layout.is_zero()) continue;
    target.bf16_offset = bf16_;
    bf16_ += 2 * round_up((target.elements + 1) / 2, kFloatsPerLine);
  }
  if (!plan_.needs_norms()) return;
  for (const Entry& each : entries_) {
    const std::int64_t chunks = chunks_of_norms(static_cast<std::int64_t>(each.elements) / kUpdatePack + 1);
    norms_.resize(std::max(norms_.size(), static_cast<std::size_t>(chunks) + 1));
  }
  for (int index = 0; index < static_cast<int>(entries_.size()); ++index) {
    if (!plan_.is_matrix(index)) continue;
    orthogonaliser_.add(matrix_of(parameter(index)), checks);
    most_directions_ = std::max(most_directions_, round_up(entry(index).elements, kFloatsPerLine));
  }
  plan_workspace();
}

// A parameter with a layout is rearranged where its optimizer works with rows and columns: directions of a matrix; value,
// gradient and states of elements beside reduced states.
void ParameterStore::plan_workspace() {
  for (int bucket = 0; bucket < static_cast<int>(buckets().size()); ++bucket) {
    for (const ParameterPlan::ParameterRange& range : plan_.ranges(bucket)) {
      const Optimizer& optimizer = *range.optimizer;
      std::size_t arrays = optimizer.scope() == OptimizerScope::matrix ? 1 : optimizer.keeps_reduced() ? 2 : 0;
      for (const OptimizerState& state : optimizer.states()) {
        if (optimizer.keeps_reduced() && state.shape == StateShape::element) ++arrays;
      }
      for (const int index : range.parameters) {
        if (!has_layout(index)) continue;
        most_rearranged_ = std::max(most_rearranged_, arrays * round_up(canonical_elements(index), kFloatsPerLine));
      }
    }
  }
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  const std::size_t directions = (most_directions_ + most_rearranged_) * sizeof(float);
  plan_.append_to(plan, bf16_, norms_.size() * sizeof(Squares), directions + orthogonaliser_.bytes());
}

void ParameterStore::start() {
  values_ = MemoryRegion(plan_.all() * sizeof(float));
  bf16_values_ = MemoryRegion(bf16_ * sizeof(std::uint16_t));
  gradients_ = MemoryRegion(plan_.gradients() * sizeof(float));
  kept_gradients_ = MemoryRegion(plan_.kept_gradients() * sizeof(float));
  directions_ = MemoryRegion(most_directions_ * sizeof(float));
  rearranged_ = MemoryRegion(most_rearranged_ * sizeof(float));
  orthogonaliser_.start();
  for (const ParameterPlan::State& state : plan_.states()) {
    const MemoryRegion& memory = states_.emplace_back(state.elements * sizeof(float));
    for (const auto& fill : state.initial) std::fill_n(memory.as<float>() + fill.begin, fill.elements, fill.value);
  }
  for (Bucket& bucket : plan_.buckets()) {
    bucket.gradients = gradients_.bytes() > 0 ? at(gradients_, bucket.parameters.front()) : nullptr;
  }
}

std::uint16_t* ParameterStore::bf16_value(int index) {
  const bool kept = options_.precision == Precision::bf16 && has_layout(index);
  return kept ? bf16_values_.as<std::uint16_t>() + entry(index).bf16_offset : nullptr;
}

// Everything is padded to whole lines, so the last pack of an array is whole too.
UpdateArguments ParameterStore::arguments_of(int index, const ParameterPlan::ParameterRange& range) {
  UpdateArguments arguments;
  arguments.value = value(index);
  arguments.gradient = gradient(index);
  for (std::size_t k = 0; k < range.states.size(); ++k) {
    arguments.states[k] = states_[range.states[k]].as<float>() + plan_.place(static_cast<int>(range.states[k]), index);
  }
  arguments.direction = directions_.bytes() > 0 ? directions_.as<float>() : nullptr;
  arguments.bf16 = reinterpret_cast<Bf16*>(bf16_value(index));
  arguments.packs = static_cast<std::int64_t>(entry(index).elements + kUpdatePack - 1) / kUpdatePack;
  const MatrixShape matrix = matrix_of(parameter(index));
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
  for (const ParameterPlan::ParameterRange& range : plan_.ranges(bucket)) {
    for (const int index : range.parameters) update(index, range, step);
  }
}

void ParameterStore::update(int index, const ParameterPlan::ParameterRange& range, const UpdateStep& step) {
  const Optimizer& optimizer = *range.optimizer;
  const UpdateSegment segment = plan_.segment(index, step.rate_factor, step.learning_rate);  // of one parameter: the whole rate
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
  if (!optimizer.keeps_reduced() || !has_layout(index)) return optimizer.update(arguments, step, run_kernel);
  const UpdateArguments rows = in_rows(index, optimizer, arguments);
  optimizer.update(rows, step, run_kernel);
  put_back(index, optimizer, rows, arguments);
}

// Copies of what an optimizer with reduced states reads and writes, where rows are rows. Zeros behind the last element.
UpdateArguments ParameterStore::in_rows(int index, const Optimizer& optimizer, const UpdateArguments& at) {
  const Entry& own = entry(index);
  const std::size_t elements = canonical_elements(index), stride = round_up(elements, kFloatsPerLine);
  auto* free = rearranged_.as<float>();
  const auto copy_of = [&](const float* array) {
    float* const copy = std::exchange(free, free + stride);
    rearrange(own.layout, array, own.canonical, copy, orthogonaliser_.engine());
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
  const Entry& own = entry(index);
  const dnnl::engine& engine = orthogonaliser_.engine();
  rearrange(own.canonical, from.value, own.layout, to.value, engine);
  for (std::size_t s = 0; s < optimizer.states().size(); ++s) {
    if (optimizer.states()[s].shape == StateShape::element)
      rearrange(own.canonical, from.states[s], own.layout, to.states[s], engine);
  }
  refresh_bf16(index);
}

// Directions lie as the parameter does; as the network has it, it is a matrix.
void ParameterStore::orthogonalise(int index, const Optimizer& optimizer) {
  const MatrixShape shape = matrix_of(parameter(index));
  const dnnl::engine& engine = orthogonaliser_.engine();
  if (!has_layout(index)) return orthogonaliser_.run(directions_.as<float>(), norms_.data(), shape, optimizer.newton_schulz());
  const Entry& own = entry(index);
  rearrange(own.layout, directions_.as<float>(), own.canonical, rearranged_.as<float>(), engine);
  orthogonaliser_.run(rearranged_.as<float>(), norms_.data(), shape, optimizer.newton_schulz());
  rearrange(own.canonical, rearranged_.as<float>(), own.layout, directions_.as<float>(), engine);
}

void ParameterStore::lerp_into(std::string_view copy, double decay, bool write_back) {
  const std::size_t state = plan_.find_copy(copy);
  auto* blended = states_[state].as<float>();
  if (!plan_.states()[state].begun) std::memcpy(blended, values_.as<float>(), states_[state].bytes());
  plan_.states()[state].begun = true;
  kernels().blend(values_.as<float>(), blended, decay, write_back, plan_.blended());
  if (!write_back) return;
  for (int index = 0; index < static_cast<int>(entries_.size()); ++index) refresh_bf16(index);
}

void ParameterStore::swap_with(std::string_view copy) {
  const std::size_t state = plan_.find_copy(copy);
  if (!plan_.states()[state].begun) return;  // it would begin as the values are
  std::swap_ranges(values_.as<float>(), values_.as<float>() + plan_.blended(), states_[state].as<float>());
  for (int index = 0; index < static_cast<int>(entries_.size()); ++index) refresh_bf16(index);
}

void ParameterStore::keep_gradients() {
  if (kept_gradients_.bytes() == 0) fail(ErrorKind::usage, "gradients are not kept: the network was compiled for whole batches");
  std::memcpy(kept_gradients_.as<float>(), gradients_.as<float>(), gradients_.bytes());
}

void ParameterStore::add_kept(int bucket) {
  const Bucket& sum = buckets()[static_cast<std::size_t>(bucket)];
  const float* const both[] = {at(kept_gradients_, sum.parameters.front()), sum.gradients};
  kernels().sum(sum.gradients, both, 2, sum.elements);
}

void ParameterStore::refresh_bf16(int index) {
  if (std::uint16_t* copy = bf16_value(index)) kernels().to_bf16(value(index), copy, entry(index).elements);
}

void ParameterStore::zero_gradients() {
  if (gradients_.bytes() > 0) std::memset(gradients_.as<float>(), 0, gradients_.bytes());
}

float* ParameterStore::state_of(std::string_view name, int index) const {
  const int state = plan_.find_state(name, index);
  if (state == ParameterPlan::kValues) return at(values_, index);
  if (state == ParameterPlan::kGradients) return at(gradients_, index);
  return states_[static_cast<std::size_t>(state)].as<float>() + plan_.place(state, index);
}

std::vector<float> ParameterStore::read(std::string_view state, int index, const dnnl::engine& engine) {
  const float* source = state_of(state, index);
  std::vector<float> values(static_cast<std::size_t>(plan_.state_shape(state, index)->elements()));
  if (has_layout(index) && plan_.kind_of(state, index) == StateShape::element) {
    rearrange(entry(index).layout, source, entry(index).canonical, values.data(), engine);
  } else {
    std::copy_n(source, values.size(), values.begin());
  }
  return values;
}

void ParameterStore::write(std::string_view state, int index, std::span<const float> values, const dnnl::engine& engine) {
  plan_.check_size(state, index, values);
  float* destination = state_of(state, index);
  if (has_layout(index) && plan_.kind_of(state, index) == StateShape::element) {
    rearrange(entry(index).canonical, values.data(), entry(index).layout, destination, engine);
  } else {
    std::copy(values.begin(), values.end(), destination);
  }
  if (state == kValue) refresh_bf16(index);
  plan_.written(plan_.find_state(state, index));
}

}  // namespace millrace::cpu
