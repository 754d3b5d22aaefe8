#include "parameter_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "layers/map_spec.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::size_t kElementsAligned = kAlignment / sizeof(float);
constexpr std::size_t kLeastStaging = std::size_t{1} << 16, kMaxStaging = std::size_t{1} << 22;  // bytes

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

void ParameterStore::set_layout(int index, const WeightLayout& layout) {
  WeightLayout& known = layouts_[static_cast<std::size_t>(index)];
  if (known.out != 0 && !(known == layout)) {
    fail(ErrorKind::usage, "parameter '{}' would need two layouts on backend 'cuda'", plan_.parameters.parameter(index).name);
  }
  known = layout;
}

void ParameterStore::finish_planning(Machine& machine) {
  std::vector<std::size_t> elements;
  std::vector<std::int64_t> widths;
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (layouts_[i].out == 0) layouts_[i] = WeightLayout::vector(network_.parameters[i].shape.elements());
    elements.push_back(layouts_[i].elements());
    matrices_.push_back(matrix_in_memory(static_cast<int>(i)));
    widths.push_back(matrices_.back().columns);
  }
  plan_.plan(elements, widths, kElementsAligned);
  if (!plan_.updates.is_empty()) plan_launches();
  for (int index = 0; index < static_cast<int>(matrices_.size()); ++index) {
    if (plan_.updates.is_matrix(index)) orthogonaliser_.add(machine, matrices_[static_cast<std::size_t>(index)]);
  }
}

void ParameterStore::plan_launches() {
  for (int bucket = 0; bucket < static_cast<int>(plan_.parameters.buckets().size()); ++bucket) {
    std::vector<Launch>& launches = launches_.emplace_back();
    for (const UpdatePlan::Range& range : plan_.updates.ranges(bucket)) {
      const std::vector<UpdateSegment> segments = segments_of(range, {});
      const std::int64_t packs = static_cast<std::int64_t>(range.elements) / kPack, last = packs - segments.back().begin;
      const Launch& launch =
          launches.emplace_back(Launch{segment_count_, segments.size(), segments.back().first_chunk + chunks_of_norms(last)});
      segment_count_ += launch.segments;
      most_chunks_ = std::max(most_chunks_, launch.chunks);
      if (range.optimizer->scope() == OptimizerScope::matrix) most_directions_ = std::max(most_directions_, range.elements);
    }
  }
}

// The sums of squares of one launch at a time: of its chunks, then of its segments.
std::size_t ParameterStore::norm_bytes() const {
  return plan_.updates.needs_norms() ? (static_cast<std::size_t>(most_chunks_) + segment_count_) * sizeof(Squares) : 0;
}

// True if the parameter's memory order equals the network's, whatever its shape.
bool ParameterStore::is_vector(int index) const {
  return layouts_[static_cast<std::size_t>(index)] == WeightLayout::vector(plan_.parameters.parameter(index).shape.elements());
}

MatrixShape ParameterStore::matrix_in_memory(int index) const {
  const WeightLayout& layout = layouts_[static_cast<std::size_t>(index)];
  if (is_vector(index)) return matrix_of(plan_.parameters.parameter(index));
  return {layout.out_pitch, layout.height * layout.width * layout.in_pitch};
}

// A matrix's columns have the weights' order, with their padding.
WeightLayout ParameterStore::layout_of(std::string_view state, int index) const {
  const WeightLayout& layout = layouts_[static_cast<std::size_t>(index)];
  const auto exactly = [](std::int64_t numbers) { return WeightLayout{numbers, 1, 1, 1, numbers, 1}; };
  switch (plan_.states.kind_of(state, index)) {
    case StateShape::element: return layout;
    case StateShape::rows: return exactly(matrix_of(plan_.parameters.parameter(index)).rows);
    case StateShape::columns:
      return is_vector(index) ? exactly(matrix_of(plan_.parameters.parameter(index)).columns) : layout.of_columns();
    case StateShape::scalar: break;
  }
  return exactly(1);
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  const std::size_t workspace = most_directions_ * sizeof(float) + orthogonaliser_.bytes();
  plan_.append_to(plan, mirrored() ? plan_.parameters.all() : 0, norm_bytes(), workspace);
}

void ParameterStore::start(Machine& machine) {
  machine_ = &machine;
  allocate([&](std::size_t bytes, const std::string& what) { return DeviceMemory(machine, bytes, what); },
           [&](float* to, std::size_t elements, float value) {
             upload(machine, *machine.make_queue("initial values"), to, std::vector<float>(elements, value));
           });
  if (mirrored()) mirror_ = DeviceMemory(machine, plan_.parameters.all() * sizeof(Bf16), "weights in bf16");
  norms_ = DeviceMemory(machine, norm_bytes(), "norms of parameters");
  segments_ = DeviceMemory(machine, segment_count_ * sizeof(UpdateSegment), "factors of the optimizer");
  directions_ = DeviceMemory(machine, most_directions_ * sizeof(float), "directions of updates");
  orthogonaliser_.start(machine);
}

void* ParameterStore::weights(int index) const {
  return mirrored() ? static_cast<void*>(mirror_.as<Bf16>() + plan_.parameters.offset(index)) : value(index);
}

void ParameterStore::add_kept_gradients(Queue& queue, int bucket) {
  add_kept(bucket, [&](float* to, const auto& both, std::size_t elements) {
    SumArrays kernel;
    std::ranges::copy(both, kernel.sources);
    kernel.count = 2;
    kernel.destination = to;
    kernel.elements = static_cast<std::int64_t>(elements);
    queue.run(kernel);
  });
}

std::vector<UpdateSegment> ParameterStore::segments_of(const UpdatePlan::Range& range,
                                                       std::span<const double> rate_factor) const {
  const std::size_t begin = plan_.parameters.offset(range.parameters.front());
  std::vector<UpdateSegment> segments;
  for (const int index : range.parameters) {
    UpdateSegment segment = plan_.updates.segment(index, rate_factor);
    segment.begin = static_cast<std::int64_t>((plan_.parameters.offset(index) - begin) / kPack);
    if (!segments.empty()) {
      const UpdateSegment& before = segments.back();
      segment.first_chunk = before.first_chunk + chunks_of_norms(segment.begin - before.begin);
      segment.first_row = before.first_row + before.rows;
      segment.first_column = before.first_column + column_packs(before.width) * kUpdatePack;
    }
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
  for (int bucket = 0; bucket < static_cast<int>(plan_.parameters.buckets().size()); ++bucket) {
    for (const UpdatePlan::Range& range : plan_.updates.ranges(bucket)) {
      std::ranges::copy(segments_of(range, rate_factor), std::back_inserter(segments));
    }
  }
  const HostMemory& upload = uploads_.emplace_back(*machine_, segments_.bytes());
  machine_->host_access(upload.data(), upload.bytes(), true);
  std::memcpy(upload.data(), segments.data(), segments_.bytes());
  queue.copy_in(segments_.data(), upload.data(), segments_.bytes());
}

UpdateArguments ParameterStore::arguments_of(const UpdatePlan::Range& range, const Launch& launch, const UpdateStep& step) const {
  const int first = range.parameters.front();
  UpdateArguments arguments = arrays_at(first, *range.optimizer);
  arguments.bf16 = mirrored() ? mirror_.as<Bf16>() + plan_.parameters.offset(first) : nullptr;
  arguments.packs = static_cast<std::int64_t>(range.elements) / kPack;
  arguments.rows = range.rows;
  arguments.column_packs = range.column_packs;
  arguments.segments = segments_.as<UpdateSegment>() + launch.first_segment;
  arguments.segment_count = static_cast<std::int32_t>(launch.segments);
  if (norms_.bytes() > 0) {
    arguments.partial_squares = norms_.as<Squares>();
    arguments.squares = norms_.as<Squares>() + most_chunks_ + launch.first_segment;
    arguments.chunks = launch.chunks;
  }
  arguments.direction = directions_.as<float>();
  arguments.learning_rate = static_cast<float>(step.learning_rate);
  arguments.scale = step.scale;
  arguments.wrong = step.wrong;
  return arguments;
}

void ParameterStore::update(Queue& queue, int bucket, const UpdateStep& step) {
  const auto run = [&](const Kernel& kernel, const void* element) { queue.run(kernel, element); };
  const std::vector<UpdatePlan::Range>& ranges = plan_.updates.ranges(bucket);
  upload_segments(queue, step.rate_factor);
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const UpdatePlan::Range& range = ranges[r];
    const Optimizer& optimizer = *range.optimizer;
    const UpdateArguments arguments = arguments_of(range, launches_[static_cast<std::size_t>(bucket)][r], step);
    if (optimizer.scope() == OptimizerScope::matrix) {
      optimizer.directions(arguments, step, run);
      const std::size_t begin = plan_.parameters.offset(range.parameters.front());
      for (std::size_t k = 0; k < range.parameters.size(); ++k) {
        float* const direction = arguments.direction + (plan_.parameters.offset(range.parameters[k]) - begin);
        const MatrixShape& shape = matrices_[static_cast<std::size_t>(range.parameters[k])];
        orthogonaliser_.run(queue, direction, arguments.squares + k, shape, optimizer.newton_schulz());
      }
    }
    optimizer.update(arguments, step, run);
  }
}

void ParameterStore::lerp_into(Queue& queue, std::string_view copy, double decay, bool write_back) {
  blend_into(queue, copy, decay, [&](float* blended) {
    queue.run(Blend{.value = values_.as<float>(),
                    .copy = blended,
                    .bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr,
                    .packs = static_cast<std::int64_t>(plan_.parameters.blended()) / kPack,
                    .decay = static_cast<float>(decay),
                    .write_back = write_back});
  });
}

void ParameterStore::swap_with(Queue& queue, std::string_view copy) {
  Swap kernel{.value = values_.as<float>(),
              .copy = begun_copy(copy),
              .bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr,
              .packs = static_cast<std::int64_t>(plan_.parameters.blended()) / kPack};
  if (kernel.copy != nullptr) queue.run(kernel);
}

// Grows up to kMaxStaging.
HostMemory& ParameterStore::staging(std::size_t bytes) {
  if (!staging_ || staging_->bytes() < std::min(bytes, kMaxStaging)) {
    staging_.reset();
    staging_ = std::make_unique<HostMemory>(*machine_, std::clamp(bytes, kLeastStaging, kMaxStaging));
  }
  return *staging_;
}

// Through pinned memory; copy(at, count, pinned): `count` bytes from byte `at` on.
template <class Copy>
void ParameterStore::in_pieces(std::size_t bytes, const Copy& copy) {
  const HostMemory& pinned = staging(bytes);
  for (std::size_t at = 0; at < bytes; at += pinned.bytes()) copy(at, std::min(pinned.bytes(), bytes - at), pinned.data());
}

std::vector<float> ParameterStore::read(Queue& queue, std::string_view state, int index) {
  const auto* const source = reinterpret_cast<const std::byte*>(state_of(state, index));
  const WeightLayout layout = layout_of(state, index);
  std::vector<float> values(layout.elements());
  in_pieces(values.size() * sizeof(float), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    queue.copy_out(pinned, source + at, count);
    queue.mark()->wait();
    machine_->host_access(pinned, count, false);
    std::memcpy(reinterpret_cast<std::byte*>(values.data()) + at, pinned, count);
  });
  return from_memory(layout, values);
}

void ParameterStore::write(Queue& queue, std::string_view state, int index, std::span<const float> values) {
  plan_.states.check_size(state, index, values);
  auto* const destination = reinterpret_cast<std::byte*>(state_of(state, index));
  const std::vector<float> memory = to_memory(layout_of(state, index), values);
  in_pieces(memory.size() * sizeof(float), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    machine_->host_access(pinned, count, true);
    std::memcpy(pinned, reinterpret_cast<const std::byte*>(memory.data()) + at, count);
    queue.copy_in(destination + at, pinned, count);
    queue.mark()->wait();
  });
  if (state == kValue && mirrored()) mirror(queue, index);
  plan_.states.written(plan_.states.find(state, index));
}

namespace {

class PinnedSnapshot final : public Snapshot {
 public:
  struct Part {
    WeightLayout layout;
    std::size_t offset = 0;  // bytes
  };
  PinnedSnapshot(Machine& machine, std::shared_ptr<HostMemory> memory, std::vector<Part> parts, Ref<Event> copied)
      : machine_(machine), memory_(std::move(memory)), parts_(std::move(parts)), copied_(std::move(copied)) {}
  ~PinnedSnapshot() override {
    try {
      copied_->wait();        // the device writes until then
    } catch (const Error&) {  // or has stopped writing
    }
  }

  std::vector<float> take(std::size_t index) override {
    copied_->wait();
    const Part& part = parts_.at(index);
    const std::byte* const data = memory_->data() + part.offset;
    machine_.host_access(data, part.layout.elements() * sizeof(float), false);
    return from_memory(part.layout, {reinterpret_cast<const float*>(data), part.layout.elements()});
  }

 private:
  Machine& machine_;
  const std::shared_ptr<HostMemory> memory_;
  const std::vector<Part> parts_;
  const Ref<Event> copied_;
};

// A snapshot that was read while the caller waited.
class ReadSnapshot final : public Snapshot {
 public:
  explicit ReadSnapshot(std::vector<std::vector<float>> values) : values_(std::move(values)) {}
  std::vector<float> take(std::size_t index) override { return values_.at(index); }

 private:
  const std::vector<std::vector<float>> values_;
};

}  // namespace

std::unique_ptr<Snapshot> ParameterStore::capture(Queue& queue, std::span<const StateOf> states) {
  std::vector<PinnedSnapshot::Part> parts;
  std::size_t bytes = 0;
  for (const StateOf& each : states) {
    const WeightLayout layout = layout_of(each.state, each.parameter);
    parts.push_back({layout, bytes});
    bytes += layout.elements() * sizeof(float);
  }
  const std::shared_ptr<HostMemory> memory = pin_copy(bytes);
  if (!memory) {
    std::vector<std::vector<float>> values;
    for (const StateOf& each : states) values.push_back(read(queue, each.state, each.parameter));
    return std::make_unique<ReadSnapshot>(std::move(values));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const float* const source = state_of(states[i].state, states[i].parameter);
    queue.copy_out(memory->data() + parts[i].offset, source, parts[i].layout.elements() * sizeof(float));
  }
  return std::make_unique<PinnedSnapshot>(*machine_, memory, std::move(parts), queue.mark());
}

std::shared_ptr<HostMemory> ParameterStore::pin_copy(std::size_t bytes) {
  if (!pins_copies_) return nullptr;
  try {
    if (copy_.use_count() != 1 || copy_->bytes() < bytes) {
      copy_.reset();  // so that not both are pinned at once
      copy_ = std::make_shared<HostMemory>(*machine_, std::max<std::size_t>(bytes, 1));
    }
    return copy_;
  } catch (const Error& error) {
    pins_copies_ = false;
    machine_->warn(
        fmt::format("{}:{}: checkpoints need {:.1f} MiB of pinned memory, which cannot be had ({}); they are read in "
                    "pieces instead, and training waits for each",
                    machine_->info().backend, machine_->info().index, static_cast<double>(bytes) / (1 << 20), error.message()));
    return nullptr;
  }
}

void ParameterStore::mirror(Queue& queue, int index) {
  queue.run(FloatToBf16{.from = value(index),
                        .to = mirror_.as<Bf16>() + plan_.parameters.offset(index),
                        .packs = static_cast<std::int64_t>((plan_.parameters.elements(index) + kPack - 1) / kPack)});
  queue.mark()->wait();
}

}  // namespace millrace::cuda
