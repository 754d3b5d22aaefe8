#include "parameter_store.h"

#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/run_kernel.h"
#include "millrace/buckets.h"
#include "planner.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

constexpr std::size_t kFloatsPerLine = kAlignment / sizeof(float);

std::size_t whole_lines(std::size_t floats) { return (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine; }

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

void ParameterStore::place_all(const std::vector<int>& indices, std::size_t& offset) {
  for (const int index : indices) {
    entry(index).offset = offset;
    offset += whole_lines(entry(index).elements);
  }
}

void ParameterStore::finish_planning() {
  std::size_t offset = 0;
  for (std::vector<int>& members : plan_buckets(network_, options_.bucket_bytes)) {
    const std::size_t begin = offset;
    place_all(members, offset);
    buckets_.push_back({std::move(members), nullptr, offset - begin});
  }
  trainable_ = offset;
  std::vector<int> statistics, frozen;
  for (int index = 0; index < static_cast<int>(entries_.size()); ++index) {
    if (parameter(index).statistic)
      statistics.push_back(index);
    else if (!parameter(index).trainable)
      frozen.push_back(index);
  }
  place_all(statistics, offset);
  blended_ = offset;
  place_all(frozen, offset);
  all_ = offset;
  plan_states();
  for (Entry& target : entries_) {
    if (options_.precision != Precision::bf16 || target.layout.is_zero()) continue;
    target.bf16_offset = bf16_;
    bf16_ += 2 * whole_lines((target.elements + 1) / 2);
  }
}

void ParameterStore::plan_states() {
  const CompileRequest& request = options_.request;
  if (request.update.rule && options_.train_batch > 0) {
    for (const RuleState& state : request.update.rule->states()) states_.push_back({state.name, state.initial, trainable_});
  }
  for (const std::string& name : request.copies) states_.push_back({.name = name, .elements = blended_, .copy = true});
  if (!request.update.rule || request.update.rule->scope() != RuleScope::parameter) return;
  for (const Entry& each : entries_) {
    const std::int64_t chunks = chunks_of_norms(static_cast<std::int64_t>(each.elements) / kUpdatePack + 1);
    norms_.resize(std::max(norms_.size(), static_cast<std::size_t>(chunks) + 1));
  }
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  const auto add = [&](const char* what, std::size_t bytes) {
    if (bytes > 0) plan.items.push_back({what, bytes});
  };
  const bool training = options_.train_batch > 0;
  add("weights", all_ * sizeof(float));
  add("weights in bf16", bf16_ * sizeof(std::uint16_t));
  add("gradients of earlier pieces", training && options_.request.micro_batches > 1 ? trainable_ * sizeof(float) : 0);
  add("gradients of weights", training ? trainable_ * sizeof(float) : 0);
  for (const State& state : states_) add((state.name + " of weights").c_str(), state.elements * sizeof(float));
  add("norms of parameters", norms_.size() * sizeof(Squares));
}

void ParameterStore::start() {
  const bool training = options_.train_batch > 0;
  values_ = MemoryRegion(all_ * sizeof(float));
  bf16_values_ = MemoryRegion(bf16_ * sizeof(std::uint16_t));
  gradients_ = MemoryRegion(training ? trainable_ * sizeof(float) : 0);
  kept_gradients_ = MemoryRegion(options_.request.micro_batches > 1 ? gradients_.bytes() : 0);
  for (State& state : states_) {
    state.memory = MemoryRegion(state.elements * sizeof(float));
    if (state.initial != 0) std::fill_n(state.memory.as<float>(), state.elements, state.initial);
  }
  for (Bucket& bucket : buckets_) {
    bucket.gradients = training ? at(gradients_, bucket.parameters.front()) : nullptr;
  }
}

std::uint16_t* ParameterStore::bf16_value(int index) {
  const bool kept = options_.precision == Precision::bf16 && has_layout(index);
  return kept ? bf16_values_.as<std::uint16_t>() + entry(index).bf16_offset : nullptr;
}

// Everything is padded to whole lines, so the last pack of an array is whole too.
UpdateArguments ParameterStore::arguments_of(int index) {
  UpdateArguments arguments;
  arguments.value = value(index);
  arguments.gradient = gradient(index);
  std::size_t k = 0;
  for (State& state : states_) {
    if (!state.copy) arguments.states[k++] = at(state.memory, index);
  }
  arguments.bf16 = reinterpret_cast<Bf16*>(bf16_value(index));
  arguments.packs = static_cast<std::int64_t>(entry(index).elements + kUpdatePack - 1) / kUpdatePack;
  if (norms_.empty()) return arguments;
  arguments.chunks = chunks_of_norms(arguments.packs);
  arguments.squares = norms_.data();
  arguments.partial_squares = norms_.data() + 1;
  return arguments;
}

void ParameterStore::update(int bucket, const UpdateStep& step) {
  const UpdateRule& rule = options_.request.update;
  if (!rule.rule) fail(ErrorKind::usage, "nothing is updated: the network was compiled without an update rule");
  const std::span<const double> factors = step.rate_factor.empty() ? std::span<const double>(rule.rate_factor) : step.rate_factor;
  for (const int index : buckets_[static_cast<std::size_t>(bucket)].parameters) {
    const auto i = static_cast<std::size_t>(index);
    UpdateArguments arguments = arguments_of(index);
    UpdateSegment segment;  // of one parameter, so the whole rate is its factor
    segment.rate_factor = static_cast<float>((factors.empty() ? 1.0 : factors[i]) * step.learning_rate);
    segment.decay = rule.decay.empty() ? 0.0F : static_cast<float>(rule.decay[i]);
    arguments.learning_rate = 1;
    arguments.scale = step.scale;
    arguments.segments = &segment;
    arguments.segment_count = 1;
    rule.rule->update(arguments, step.updates_done, run_kernel);
  }
}

void ParameterStore::blend(std::string_view copy, double decay, bool write_back) {
  State& state = find_copy(copy);
  auto* blended = state.memory.as<float>();
  if (!state.begun) std::memcpy(blended, values_.as<float>(), state.memory.bytes());
  state.begun = true;
  kernels().blend(values_.as<float>(), blended, decay, write_back, blended_);
  if (!write_back) return;
  for (int index = 0; index < static_cast<int>(entries_.size()); ++index) refresh_bf16(index);
}

void ParameterStore::exchange(std::string_view copy) {
  State& state = find_copy(copy);
  if (!state.begun) return;  // it would begin as the values are
  std::swap_ranges(values_.as<float>(), values_.as<float>() + state.elements, state.memory.as<float>());
  for (int index = 0; index < static_cast<int>(entries_.size()); ++index) refresh_bf16(index);
}

void ParameterStore::keep_gradients() {
  if (kept_gradients_.bytes() == 0) fail(ErrorKind::usage, "gradients are not kept: the network was compiled for whole batches");
  std::memcpy(kept_gradients_.as<float>(), gradients_.as<float>(), gradients_.bytes());
}

void ParameterStore::add_kept(int bucket) {
  const Bucket& sum = buckets_[static_cast<std::size_t>(bucket)];
  const float* const both[] = {at(kept_gradients_, sum.parameters.front()), sum.gradients};
  kernels().sum(sum.gradients, both, 2, sum.elements);
}

void ParameterStore::refresh_bf16(int index) {
  if (std::uint16_t* copy = bf16_value(index)) kernels().to_bf16(value(index), copy, entry(index).elements);
}

void ParameterStore::zero_gradients() {
  if (gradients_.bytes() > 0) std::memset(gradients_.as<float>(), 0, gradients_.bytes());
}

std::vector<std::string> ParameterStore::states() const {
  std::vector<std::string> names = {std::string(kValue)};
  if (options_.train_batch > 0) names.emplace_back(kGradient);
  for (const State& state : states_) names.push_back(state.name);
  return names;
}

ParameterStore::State& ParameterStore::find_copy(std::string_view name) {
  State* const state = find_state(name);
  if (state == nullptr || !state->copy)
    fail(ErrorKind::usage, "there is no copy '{}' of the weights: it was not asked for", name);
  return *state;
}

ParameterStore::State* ParameterStore::find_state(std::string_view name) {
  const auto found = std::ranges::find(states_, name, &State::name);
  return found == states_.end() ? nullptr : &*found;
}

MemoryRegion& ParameterStore::region(std::string_view state, int index) {
  State* const other = find_state(state);
  MemoryRegion* const found = state == kValue ? &values_ : state == kGradient ? &gradients_ : other ? &other->memory : nullptr;
  const std::size_t end = (entry(index).offset + entry(index).elements) * sizeof(float);
  if (found == nullptr || end > found->bytes()) {
    fail(ErrorKind::usage, "parameter '{}' has no state '{}' here", parameter(index).name, state);
  }
  return *found;
}

std::vector<float> ParameterStore::read(std::string_view state, int index, const dnnl::engine& engine) {
  const float* source = at(region(state, index), index);
  std::vector<float> values(static_cast<std::size_t>(parameter(index).shape.elements()));
  if (has_layout(index)) {
    rearrange(entry(index).layout, source, entry(index).canonical, values.data(), engine);
  } else {
    std::copy_n(source, values.size(), values.begin());
  }
  return values;
}

void ParameterStore::write(std::string_view state, int index, std::span<const float> values, const dnnl::engine& engine) {
  const auto expected = static_cast<std::size_t>(parameter(index).shape.elements());
  if (values.size() != expected) {
    fail(ErrorKind::usage, "parameter '{}' has {} values, not {}", parameter(index).name, expected, values.size());
  }
  float* destination = at(region(state, index), index);
  if (has_layout(index)) {
    rearrange(entry(index).canonical, values.data(), entry(index).layout, destination, engine);
  } else {
    std::copy(values.begin(), values.end(), destination);
  }
  if (state == kValue) refresh_bf16(index);
  if (State* copy = find_state(state)) copy->begun = true;
}

}  // namespace millrace::cpu
