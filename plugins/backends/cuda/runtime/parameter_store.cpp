#include "parameter_store.h"

#include <algorithm>
#include <cstring>

#include "layers/map_spec.h"
#include "millrace/buckets.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::size_t kElementsAligned = kAlignment / sizeof(float);
constexpr std::size_t kLeastStaging = std::size_t{1} << 16, kMostStaging = std::size_t{1} << 22;  // bytes

template <class Call>  // call(index in the network's order, index in memory)
void for_each_element(const WeightLayout& at, const Call& call) {
  for (std::int64_t o = 0; o < at.out; ++o) {
    for (std::int64_t i = 0; i < at.in; ++i) {
      for (std::int64_t h = 0; h < at.height; ++h) {
        for (std::int64_t w = 0; w < at.width; ++w) {
          call(static_cast<std::size_t>(((o * at.in + i) * at.height + h) * at.width + w),
               static_cast<std::size_t>(((o * at.height + h) * at.width + w) * at.in_pitch + i));
        }
      }
    }
  }
}

}  // namespace

std::vector<float> to_memory(const WeightLayout& layout, std::span<const float> values) {
  std::vector<float> memory(layout.elements(), 0.0F);
  for_each_element(layout, [&](std::size_t from, std::size_t to) { memory[to] = values[from]; });
  return memory;
}

std::vector<float> from_memory(const WeightLayout& layout, std::span<const float> memory) {
  std::vector<float> values(static_cast<std::size_t>(layout.out * layout.in * layout.height * layout.width));
  for_each_element(layout, [&](std::size_t to, std::size_t from) { values[to] = memory[from]; });
  return values;
}

ParameterStore::ParameterStore(const Network& network, const CompileOptions& options)
    : network_(network), options_(options), entries_(network.parameters.size()) {}

void ParameterStore::set_layout(int index, const WeightLayout& layout) {
  WeightLayout& known = entries_[static_cast<std::size_t>(index)].layout;
  if (known.out != 0 && !(known == layout)) {
    fail(ErrorKind::usage, "parameter '{}' would need two layouts on backend 'cuda'", parameter(index).name);
  }
  known = layout;
}

void ParameterStore::place_all(const std::vector<int>& indices, std::size_t& offset) {
  for (const int index : indices) {
    Entry& target = entries_[static_cast<std::size_t>(index)];
    if (target.layout.out == 0) target.layout = WeightLayout::vector(parameter(index).shape.elements());
    target.offset = offset;
    offset += round_up(target.layout.elements(), kElementsAligned);
  }
}

void ParameterStore::finish_planning() {
  std::size_t offset = 0;
  std::size_t segments = 0;
  for (std::vector<int>& members : plan_buckets(network_, options_.bucket_bytes)) {
    const std::size_t begin = offset;
    first_segment_.push_back(segments);
    segments += members.size();
    place_all(members, offset);
    std::int64_t chunks = 0;
    for (std::size_t k = 0; k < members.size(); ++k) {
      const std::size_t end = k + 1 < members.size() ? entry(members[k + 1]).offset : offset;
      chunks += chunks_of_norms(static_cast<std::int64_t>(end - entry(members[k]).offset) / kPack);
    }
    chunks_.push_back(chunks);
    most_chunks_ = std::max(most_chunks_, chunks);
    buckets_.push_back({std::move(members), nullptr, offset - begin});
  }
  first_segment_.push_back(segments);
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
}

void ParameterStore::plan_states() {
  const CompileRequest& request = options_.request;
  if (request.update.rule && options_.train_batch > 0) {
    for (const RuleState& state : request.update.rule->states()) states_.push_back({state.name, state.initial, trainable_});
  }
  for (const std::string& name : request.copies) states_.push_back({.name = name, .elements = blended_, .copy = true});
}

// The sums of squares of one bucket at a time: of its chunks, then of its segments.
std::size_t ParameterStore::norm_bytes() const {
  const Rule* rule = options_.request.update.rule.get();
  if (rule == nullptr || rule->scope() != RuleScope::parameter || options_.train_batch == 0) return 0;
  return (static_cast<std::size_t>(most_chunks_) + first_segment_.back()) * sizeof(Squares);
}

std::size_t ParameterStore::kept_bytes() const {
  return options_.request.micro_batches > 1 && options_.train_batch > 0 ? trainable_ * sizeof(float) : 0;
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  const auto add = [&](const char* what, std::size_t bytes) {
    if (bytes > 0) plan.items.push_back({what, bytes});
  };
  const std::size_t trained = options_.train_batch > 0 ? trainable_ : 0;
  add("weights", all_ * sizeof(float));
  add("weights in bf16", mirrored() ? all_ * sizeof(Bf16) : 0);
  add("gradients of weights", trained * sizeof(float));
  add("gradients of earlier pieces", kept_bytes());
  for (const State& state : states_) add((state.name + " of weights").c_str(), state.elements * sizeof(float));
  add("norms of parameters", norm_bytes());
}

void ParameterStore::start(Machine& machine) {
  machine_ = &machine;
  const std::size_t trained = options_.train_batch > 0 ? trainable_ : 0;
  values_ = DeviceMemory(machine, all_ * sizeof(float), "weights");
  if (mirrored()) mirror_ = DeviceMemory(machine, all_ * sizeof(Bf16), "weights in bf16");
  gradients_ = DeviceMemory(machine, trained * sizeof(float), "gradients of weights");
  kept_gradients_ = DeviceMemory(machine, kept_bytes(), "gradients of earlier pieces");
  for (State& state : states_) {
    state.memory = DeviceMemory(machine, state.elements * sizeof(float), state.name + " of weights");
    if (state.initial != 0) fill(state);
  }
  norms_ = DeviceMemory(machine, norm_bytes(), "norms of parameters");
  segments_ = DeviceMemory(machine, first_segment_.back() * sizeof(UpdateSegment), "factors of the optimizer");
  for (Bucket& bucket : buckets_) bucket.gradients = trained > 0 ? gradient(bucket.parameters.front()) : nullptr;
}

void* ParameterStore::weights(int index) const {
  return mirrored() ? static_cast<void*>(mirror_.as<Bf16>() + entry(index).offset) : value(index);
}

void ParameterStore::fill(State& state) {
  const std::unique_ptr<Queue> queue = machine_->make_queue("initial values");
  const HostMemory host(*machine_, state.memory.bytes());
  machine_->host_access(host.data(), host.bytes(), true);
  std::fill_n(reinterpret_cast<float*>(host.data()), state.elements, state.initial);
  queue->copy_in(state.memory.data(), host.data(), host.bytes());
  queue->mark()->wait();
}

std::vector<UpdateSegment> ParameterStore::segments_of(const Bucket& bucket, std::span<const double> rate_factor) const {
  const std::vector<double>& decay = options_.request.update.decay;
  const std::size_t begin = entry(bucket.parameters.front()).offset;
  std::vector<UpdateSegment> segments;
  for (const int index : bucket.parameters) {
    const auto i = static_cast<std::size_t>(index);
    UpdateSegment segment;
    segment.begin = static_cast<std::int64_t>((entry(index).offset - begin) / kPack);
    if (!segments.empty()) {
      const UpdateSegment& before = segments.back();
      segment.first_chunk = before.first_chunk + chunks_of_norms(segment.begin - before.begin);
    }
    segment.rate_factor = rate_factor.empty() ? 1.0F : static_cast<float>(rate_factor[i]);
    segment.decay = decay.empty() ? 0.0F : static_cast<float>(decay[i]);
    segments.push_back(segment);
  }
  return segments;
}

void ParameterStore::upload_segments(Queue& queue, std::span<const double> rate_factor) {
  if (segments_are_up_ && std::ranges::equal(rate_factor, uploaded_factors_)) return;
  segments_are_up_ = true;
  uploaded_factors_.assign(rate_factor.begin(), rate_factor.end());
  if (segments_.bytes() == 0) return;
  std::vector<UpdateSegment> segments;
  for (const Bucket& bucket : buckets_) std::ranges::copy(segments_of(bucket, rate_factor), std::back_inserter(segments));
  const HostMemory& upload = uploads_.emplace_back(*machine_, segments_.bytes());
  machine_->host_access(upload.data(), upload.bytes(), true);
  std::memcpy(upload.data(), segments.data(), segments_.bytes());
  queue.copy_in(segments_.data(), upload.data(), segments_.bytes());
}

UpdateArguments ParameterStore::arguments_of(std::size_t bucket) const {
  const int first = buckets_[bucket].parameters.front();
  UpdateArguments arguments;
  arguments.value = value(first);
  arguments.gradient = buckets_[bucket].gradients;
  std::size_t k = 0;
  for (const State& state : states_) {
    if (!state.copy) arguments.states[k++] = state.memory.as<float>() + entry(first).offset;
  }
  arguments.bf16 = mirrored() ? mirror_.as<Bf16>() + entry(first).offset : nullptr;
  arguments.packs = static_cast<std::int64_t>(buckets_[bucket].elements) / kPack;
  arguments.segments = segments_.as<UpdateSegment>() + first_segment_[bucket];
  arguments.segment_count = static_cast<std::int32_t>(first_segment_[bucket + 1] - first_segment_[bucket]);
  if (norms_.bytes() > 0) {
    arguments.partial_squares = norms_.as<Squares>();
    arguments.squares = norms_.as<Squares>() + most_chunks_ + first_segment_[bucket];
    arguments.chunks = chunks_[bucket];
  }
  return arguments;
}

void ParameterStore::update(Queue& queue, int bucket, const UpdateStep& step) {
  const UpdateRule& rule = options_.request.update;
  if (!rule.rule) fail(ErrorKind::usage, "nothing is updated: the network was compiled without an update rule");
  upload_segments(queue, step.rate_factor.empty() ? std::span<const double>(rule.rate_factor) : step.rate_factor);
  UpdateArguments arguments = arguments_of(static_cast<std::size_t>(bucket));
  arguments.learning_rate = static_cast<float>(step.learning_rate);
  arguments.scale = step.scale;
  rule.rule->update(arguments, step.updates_done, [&](const Kernel& kernel, const void* element) { queue.run(kernel, element); });
}

void ParameterStore::blend(Queue& queue, std::string_view copy, double decay, bool write_back) {
  State& state = find_copy(copy);
  if (!state.begun || decay == 0) queue.copy(state.memory.data(), values_.data(), state.memory.bytes());
  state.begun = true;
  if (decay == 0) return;
  Blend kernel;
  kernel.value = values_.as<float>();
  kernel.copy = state.memory.as<float>();
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr;
  kernel.packs = static_cast<std::int64_t>(blended_) / kPack;
  kernel.decay = static_cast<float>(decay);
  kernel.write_back = write_back;
  queue.run(kernel);
}

void ParameterStore::exchange(Queue& queue, std::string_view copy) {
  State& state = find_copy(copy);
  if (!state.begun) return;  // it would begin as the values are
  Exchange kernel;
  kernel.value = values_.as<float>();
  kernel.copy = state.memory.as<float>();
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr;
  kernel.packs = static_cast<std::int64_t>(blended_) / kPack;
  queue.run(kernel);
}

void ParameterStore::keep_gradients(Queue& queue) {
  if (kept_bytes() == 0) fail(ErrorKind::usage, "gradients are not kept: the network was compiled for whole batches");
  queue.copy(kept_gradients_.data(), gradients_.data(), kept_bytes());
}

void ParameterStore::add_kept(Queue& queue, int bucket) {
  const Bucket& sum = buckets_[static_cast<std::size_t>(bucket)];
  SumArrays kernel;
  kernel.sources[0] = kept_gradients_.as<float>() + entry(sum.parameters.front()).offset;
  kernel.sources[1] = sum.gradients;
  kernel.count = 2;
  kernel.destination = sum.gradients;
  kernel.elements = static_cast<std::int64_t>(sum.elements);
  queue.run(kernel);
}

void ParameterStore::zero_gradients(Queue& queue) {
  if (gradients_.bytes() > 0) queue.zero(gradients_.data(), gradients_.bytes());
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

DeviceMemory& ParameterStore::region(std::string_view state, int index) {
  State* const other = find_state(state);
  DeviceMemory* const found = state == kValue ? &values_ : state == kGradient ? &gradients_ : other ? &other->memory : nullptr;
  const std::size_t end = (entry(index).offset + entry(index).layout.elements()) * sizeof(float);
  if (found == nullptr || end > found->bytes()) {
    fail(ErrorKind::usage, "parameter '{}' has no state '{}' here", parameter(index).name, state);
  }
  return *found;
}

// Pinning takes far longer than a copy, so what is there is kept, and grows up to kMostStaging.
HostMemory& ParameterStore::staging(std::size_t bytes) {
  if (!staging_ || staging_->bytes() < std::min(bytes, kMostStaging)) {
    staging_.reset();
    staging_ = std::make_unique<HostMemory>(*machine_, std::clamp(bytes, kLeastStaging, kMostStaging));
  }
  return *staging_;
}

// copy(at, count, pinned): `count` bytes from byte `at` on.
template <class Copy>
void ParameterStore::in_pieces(std::size_t bytes, const Copy& copy) {
  const HostMemory& pinned = staging(bytes);
  for (std::size_t at = 0; at < bytes; at += pinned.bytes()) copy(at, std::min(pinned.bytes(), bytes - at), pinned.data());
}

std::vector<float> ParameterStore::read(Queue& queue, std::string_view state, int index) {
  const float* source = region(state, index).as<float>() + entry(index).offset;
  std::vector<float> memory(entry(index).layout.elements());
  in_pieces(memory.size() * sizeof(float), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    queue.copy_out(pinned, reinterpret_cast<const std::byte*>(source) + at, count);
    queue.mark()->wait();
    machine_->host_access(pinned, count, false);
    std::memcpy(reinterpret_cast<std::byte*>(memory.data()) + at, pinned, count);
  });
  return from_memory(entry(index).layout, memory);
}

void ParameterStore::write(Queue& queue, std::string_view state, int index, std::span<const float> values) {
  const auto expected = static_cast<std::size_t>(parameter(index).shape.elements());
  if (values.size() != expected) {
    fail(ErrorKind::usage, "parameter '{}' has {} values, not {}", parameter(index).name, expected, values.size());
  }
  float* destination = region(state, index).as<float>() + entry(index).offset;
  const std::vector<float> memory = to_memory(entry(index).layout, values);
  in_pieces(memory.size() * sizeof(float), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    machine_->host_access(pinned, count, true);
    std::memcpy(pinned, reinterpret_cast<const std::byte*>(memory.data()) + at, count);
    queue.copy_in(reinterpret_cast<std::byte*>(destination) + at, pinned, count);
    queue.mark()->wait();
  });
  if (state == kValue && mirrored()) mirror(queue, index);
  if (State* written = find_state(state)) written->begun = true;
}

void ParameterStore::mirror(Queue& queue, int index) {
  FloatToBf16 kernel;
  kernel.from = value(index);
  kernel.to = mirror_.as<Bf16>() + entry(index).offset;
  kernel.packs = static_cast<std::int64_t>((entry(index).layout.elements() + kPack - 1) / kPack);
  queue.run(kernel);
  queue.mark()->wait();
}

}  // namespace millrace::cuda
