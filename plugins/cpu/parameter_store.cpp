#include "parameter_store.h"

#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"
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
  for (Entry& target : entries_) {
    if (options_.precision != Precision::bf16 || target.layout.is_zero()) continue;
    target.bf16_offset = bf16_;
    bf16_ += 2 * whole_lines((target.elements + 1) / 2);
  }
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  const auto add = [&](const char* what, std::size_t bytes) {
    if (bytes > 0) plan.items.push_back({what, bytes});
  };
  const bool training = options_.train_batch > 0;
  add("weights", all_ * sizeof(float));
  add("weights in bf16", bf16_ * sizeof(std::uint16_t));
  add("gradients of weights", training ? trainable_ * sizeof(float) : 0);
  add("velocities", training ? trainable_ * sizeof(float) : 0);
  add("slow weights", rule_.slow_weights ? blended_ * sizeof(float) : 0);
}

void ParameterStore::start() {
  const bool training = options_.train_batch > 0;
  values_ = MemoryRegion(all_ * sizeof(float));
  bf16_values_ = MemoryRegion(bf16_ * sizeof(std::uint16_t));
  gradients_ = MemoryRegion(training ? trainable_ * sizeof(float) : 0);
  velocities_ = MemoryRegion(training ? trainable_ * sizeof(float) : 0);
  for (Bucket& bucket : buckets_) {
    bucket.gradients = training ? at(gradients_, bucket.parameters.front()) : nullptr;
  }
}

std::uint16_t* ParameterStore::bf16_value(int index) {
  const bool kept = options_.precision == Precision::bf16 && has_layout(index);
  return kept ? bf16_values_.as<std::uint16_t>() + entry(index).bf16_offset : nullptr;
}

void ParameterStore::set_rule(const UpdateRule& rule) {
  if (rule.rule != "sgd") fail(ErrorKind::usage, "backend 'cpu' has no optimizer rule '{}'; it has 'sgd'", rule.rule);
  rule_ = rule;
  rule_.rate_factor.resize(entries_.size(), 1.0);
  rule_.decay.resize(entries_.size(), 0.0);
}

void ParameterStore::update(int bucket, double learning_rate, std::span<const double> rate_factor) {
  for (const int index : buckets_[static_cast<std::size_t>(bucket)].parameters) {
    const auto i = static_cast<std::size_t>(index);
    const double factor = rate_factor.empty() ? rule_.rate_factor[i] : rate_factor[i];
    SgdArguments arguments;
    arguments.value = value(index);
    arguments.gradient = gradient(index);
    arguments.velocity = rule_.momentum == 0 ? nullptr : at(velocities_, index);
    arguments.bf16_value = bf16_value(index);
    arguments.elements = entry(index).elements;
    arguments.rate = static_cast<float>(factor * learning_rate);
    arguments.decay = static_cast<float>(rule_.decay[i]);
    arguments.momentum = static_cast<float>(rule_.momentum);
    arguments.nesterov = rule_.nesterov;
    kernels().sgd(arguments);
  }
}

MemoryRegion& ParameterStore::slow_weights() {
  if (slow_.bytes() == 0 && rule_.slow_weights) slow_ = MemoryRegion(blended_ * sizeof(float));
  return slow_;
}

void ParameterStore::blend_slow(double decay) {
  if (!rule_.slow_weights) fail(ErrorKind::usage, "no slow weights: the optimizer's rule does not ask for them");
  MemoryRegion& slow = slow_weights();
  if (!slow_begun_) std::memcpy(slow.as<float>(), values_.as<float>(), slow.bytes());
  slow_begun_ = true;
  kernels().blend(values_.as<float>(), slow.as<float>(), decay, blended_);
  for (int index = 0; index < static_cast<int>(entries_.size()); ++index) refresh_bf16(index);
}

void ParameterStore::refresh_bf16(int index) {
  if (std::uint16_t* copy = bf16_value(index)) kernels().to_bf16(value(index), copy, entry(index).elements);
}

void ParameterStore::zero_gradients() {
  if (gradients_.bytes() > 0) std::memset(gradients_.as<float>(), 0, gradients_.bytes());
}

MemoryRegion& ParameterStore::region(Slot slot, int index) {
  const std::size_t end = entry(index).offset + entry(index).elements;
  const auto checked = [&](MemoryRegion& found, const char* what) -> MemoryRegion& {
    if (end * sizeof(float) > found.bytes()) fail(ErrorKind::usage, "parameter '{}' has no {} here", parameter(index).name, what);
    return found;
  };
  switch (slot) {
    case Slot::value: return checked(values_, "value");
    case Slot::gradient: return checked(gradients_, "gradient");
    case Slot::velocity: return checked(velocities_, "velocity");
    case Slot::slow: return checked(slow_weights(), "slow copy");
  }
  return values_;
}

std::vector<float> ParameterStore::read(Slot slot, int index, const dnnl::engine& engine) {
  const float* source = at(region(slot, index), index);
  std::vector<float> values(static_cast<std::size_t>(parameter(index).shape.elements()));
  if (has_layout(index)) {
    rearrange(entry(index).layout, source, entry(index).canonical, values.data(), engine);
  } else {
    std::copy_n(source, values.size(), values.begin());
  }
  return values;
}

void ParameterStore::write(Slot slot, int index, std::span<const float> values, const dnnl::engine& engine) {
  const auto expected = static_cast<std::size_t>(parameter(index).shape.elements());
  if (values.size() != expected) {
    fail(ErrorKind::usage, "parameter '{}' has {} values, not {}", parameter(index).name, expected, values.size());
  }
  float* destination = at(region(slot, index), index);
  if (has_layout(index)) {
    rearrange(entry(index).canonical, values.data(), entry(index).layout, destination, engine);
  } else {
    std::copy(values.begin(), values.end(), destination);
  }
  if (slot == Slot::value) refresh_bf16(index);
  if (slot == Slot::slow) slow_begun_ = true;
}

}  // namespace millrace::cpu
