#include "parameter_store.h"

#include <algorithm>
#include <cstring>

#include "map_spec.h"
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
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  const auto add = [&](const char* what, std::size_t bytes) {
    if (bytes > 0) plan.items.push_back({what, bytes});
  };
  const std::size_t trained = options_.train_batch > 0 ? trainable_ : 0;
  add("weights", all_ * sizeof(float));
  add("weights in bf16", mirrored() ? all_ * sizeof(Bf16) : 0);
  add("gradients of weights", trained * sizeof(float));
  add("velocities", trained * sizeof(float));
  add("slow weights", rule_.slow_weights ? blended_ * sizeof(float) : 0);
}

void ParameterStore::start(Machine& machine) {
  machine_ = &machine;
  const std::size_t trained = options_.train_batch > 0 ? trainable_ : 0;
  values_ = DeviceMemory(machine, all_ * sizeof(float), "weights");
  if (mirrored()) mirror_ = DeviceMemory(machine, all_ * sizeof(Bf16), "weights in bf16");
  gradients_ = DeviceMemory(machine, trained * sizeof(float), "gradients of weights");
  velocities_ = DeviceMemory(machine, trained * sizeof(float), "velocities");
  allocate_slow();
  segments_ = DeviceMemory(machine, first_segment_.back() * sizeof(UpdateSegment), "factors of the optimizer");
  for (Bucket& bucket : buckets_) bucket.gradients = trained > 0 ? gradient(bucket.parameters.front()) : nullptr;
}

void* ParameterStore::weights(int index) const {
  return mirrored() ? static_cast<void*>(mirror_.as<Bf16>() + entry(index).offset) : value(index);
}

void ParameterStore::allocate_slow() {
  if (rule_.slow_weights && slow_.bytes() == 0) slow_ = DeviceMemory(*machine_, blended_ * sizeof(float), "slow weights");
}

void ParameterStore::set_rule(const UpdateRule& rule) {
  if (rule.rule != "sgd") fail(ErrorKind::usage, "backend 'cuda' has no optimizer rule '{}'; it has 'sgd'", rule.rule);
  rule_ = rule;
  rule_.rate_factor.resize(entries_.size(), 1.0);
  rule_.decay.resize(entries_.size(), 0.0);
  uploaded_factors_.clear();  // the next update brings them to the device
  if (machine_ != nullptr) allocate_slow();
}

void ParameterStore::upload_segments(Queue& queue, std::span<const double> rate_factor) {
  if (std::equal(rate_factor.begin(), rate_factor.end(), uploaded_factors_.begin(), uploaded_factors_.end())) return;
  uploaded_factors_.assign(rate_factor.begin(), rate_factor.end());
  if (segments_.bytes() == 0) return;
  std::vector<UpdateSegment> segments;
  for (const Bucket& bucket : buckets_) {
    const std::size_t begin = entry(bucket.parameters.front()).offset;
    for (const int index : bucket.parameters) {
      const auto i = static_cast<std::size_t>(index);
      segments.push_back({static_cast<std::int64_t>((entry(index).offset - begin) / kPack), static_cast<float>(rate_factor[i]),
                          static_cast<float>(rule_.decay[i])});
    }
  }
  const HostMemory& upload = uploads_.emplace_back(*machine_, segments_.bytes());
  machine_->host_access(upload.data(), upload.bytes(), true);
  std::memcpy(upload.data(), segments.data(), segments_.bytes());
  queue.copy_in(segments_.data(), upload.data(), segments_.bytes());
}

void ParameterStore::update(Queue& queue, int bucket, const UpdateStep& step) {
  upload_segments(queue, step.rate_factor.empty() ? std::span<const double>(rule_.rate_factor) : step.rate_factor);
  const auto b = static_cast<std::size_t>(bucket);
  const int first = buckets_[b].parameters.front();
  SgdUpdate kernel;
  kernel.value = value(first);
  kernel.velocity = rule_.momentum == 0 ? nullptr : velocities_.as<float>() + entry(first).offset;
  kernel.gradient = buckets_[b].gradients;
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() + entry(first).offset : nullptr;
  kernel.segments = segments_.as<UpdateSegment>() + first_segment_[b];
  kernel.segment_count = static_cast<std::int32_t>(first_segment_[b + 1] - first_segment_[b]);
  kernel.packs = static_cast<std::int64_t>(buckets_[b].elements) / kPack;
  kernel.learning_rate = static_cast<float>(step.learning_rate);
  kernel.momentum = static_cast<float>(rule_.momentum);
  kernel.nesterov = rule_.nesterov;
  queue.run(kernel);
}

void ParameterStore::begin_slow(Queue& queue) {
  if (!slow_begun_) queue.copy(slow_.data(), values_.data(), slow_.bytes());
  slow_begun_ = true;
}

void ParameterStore::blend_slow(Queue& queue, double decay) {
  if (!rule_.slow_weights) fail(ErrorKind::usage, "no slow weights: the optimizer's rule does not ask for them");
  begin_slow(queue);
  if (decay == 0) return queue.copy(slow_.data(), values_.data(), slow_.bytes());  // values stay: others may be reading them
  BlendSlow kernel;
  kernel.value = values_.as<float>();
  kernel.slow = slow_.as<float>();
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr;
  kernel.packs = static_cast<std::int64_t>(blended_) / kPack;
  kernel.decay = static_cast<float>(decay);
  queue.run(kernel);
}

void ParameterStore::zero_gradients(Queue& queue) {
  if (gradients_.bytes() > 0) queue.zero(gradients_.data(), gradients_.bytes());
}

DeviceMemory& ParameterStore::region(Slot slot, int index) {
  const std::size_t end = entry(index).offset + entry(index).layout.elements();
  const auto checked = [&](DeviceMemory& found, const char* what) -> DeviceMemory& {
    if (end * sizeof(float) > found.bytes()) fail(ErrorKind::usage, "parameter '{}' has no {} here", parameter(index).name, what);
    return found;
  };
  switch (slot) {
    case Slot::value: return checked(values_, "value");
    case Slot::gradient: return checked(gradients_, "gradient");
    case Slot::velocity: return checked(velocities_, "velocity");
    case Slot::slow: return checked(slow_, "slow copy");
  }
  return values_;
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

std::vector<float> ParameterStore::read(Queue& queue, Slot slot, int index) {
  const float* source = region(slot, index).as<float>() + entry(index).offset;
  std::vector<float> memory(entry(index).layout.elements());
  in_pieces(memory.size() * sizeof(float), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    queue.copy_out(pinned, reinterpret_cast<const std::byte*>(source) + at, count);
    queue.mark()->wait();
    machine_->host_access(pinned, count, false);
    std::memcpy(reinterpret_cast<std::byte*>(memory.data()) + at, pinned, count);
  });
  return from_memory(entry(index).layout, memory);
}

void ParameterStore::write(Queue& queue, Slot slot, int index, std::span<const float> values) {
  const auto expected = static_cast<std::size_t>(parameter(index).shape.elements());
  if (values.size() != expected) {
    fail(ErrorKind::usage, "parameter '{}' has {} values, not {}", parameter(index).name, expected, values.size());
  }
  float* destination = region(slot, index).as<float>() + entry(index).offset;
  const std::vector<float> memory = to_memory(entry(index).layout, values);
  in_pieces(memory.size() * sizeof(float), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    machine_->host_access(pinned, count, true);
    std::memcpy(pinned, reinterpret_cast<const std::byte*>(memory.data()) + at, count);
    queue.copy_in(reinterpret_cast<std::byte*>(destination) + at, pinned, count);
    queue.mark()->wait();
  });
  if (slot == Slot::value && mirrored()) mirror(queue, index);
  if (slot == Slot::slow) slow_begun_ = true;
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
