#include "parameter_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "layers/map_spec.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::size_t kElementsAligned = kAlignment / sizeof(float);

void fill(Machine& machine, float* memory, std::size_t elements, float value) {
  const std::unique_ptr<Queue> queue = machine.make_queue("initial values");
  const HostMemory host(machine, elements * sizeof(float));
  machine.host_access(host.data(), host.bytes(), true);
  std::fill_n(reinterpret_cast<float*>(host.data()), elements, value);
  queue->copy_in(memory, host.data(), host.bytes());
  queue->mark()->wait();
}

}  // namespace

ParameterStore::ParameterStore(const Network& network, const CompileOptions& options)
    : network_(network), options_(options), layouts_(network.parameters.size()) {}

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
  std::vector<MatrixShape> matrices;
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (layouts_[i].out == 0) layouts_[i] = WeightLayout::vector(network_.parameters[i].shape.elements());
    elements.push_back(layouts_[i].elements());
    matrices.push_back(matrix_in_memory(static_cast<int>(i)));
    widths.push_back(matrices.back().columns);
  }
  plan_.plan(elements, widths, kElementsAligned);
  launches_.plan(machine, std::move(matrices));
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
  plan_.append_to(plan, mirrored() ? plan_.parameters.all() : 0, launches_.norm_bytes(), launches_.workspace_bytes());
}

void ParameterStore::start(Machine& machine) {
  machine_ = &machine;
  values_ = DeviceMemory(machine, plan_.parameters.all() * sizeof(float), "weights");
  if (mirrored()) mirror_ = DeviceMemory(machine, plan_.parameters.all() * sizeof(Bf16), "weights in bf16");
  gradients_.start(machine);
  for (const StatePlan::State& state : plan_.states.all()) {
    const DeviceMemory& memory = states_.emplace_back(machine, state.elements * sizeof(float), state.name + " of weights");
    for (const auto& part : state.initial) fill(machine, memory.as<float>() + part.begin, part.elements, part.value);
  }
  launches_.start(machine);
  transfer_.start(machine);
  for (Bucket& bucket : plan_.parameters.buckets())
    bucket.gradients = gradients_.exist() ? gradients_.at(bucket.parameters.front()) : nullptr;
}

void* ParameterStore::weights(int index) const {
  return mirrored() ? static_cast<void*>(mirror_.as<Bf16>() + plan_.parameters.offset(index)) : value(index);
}

UpdateArguments ParameterStore::arrays_of(const UpdatePlan::Range& range) const {
  const int first = range.parameters.front();
  UpdateArguments arguments;
  arguments.value = value(first);
  arguments.gradient = gradients_.at(first);
  const std::span<const std::size_t> own = plan_.states.states_of(*range.optimizer);
  for (std::size_t k = 0; k < own.size(); ++k) {
    arguments.states[k] = states_[own[k]].as<float>() + plan_.states.place(static_cast<int>(own[k]), first);
  }
  arguments.bf16 = mirrored() ? mirror_.as<Bf16>() + plan_.parameters.offset(first) : nullptr;
  arguments.packs = static_cast<std::int64_t>(range.elements) / kPack;
  arguments.rows = range.rows;
  arguments.column_packs = range.column_packs;
  return arguments;
}

void ParameterStore::update(Queue& queue, int bucket, const UpdateStep& step) {
  launches_.update(queue, bucket, step, [this](const UpdatePlan::Range& range) { return arrays_of(range); });
}

void ParameterStore::lerp_into(Queue& queue, std::string_view copy, double decay, bool write_back) {
  const std::size_t state = plan_.states.find_copy(copy);
  const DeviceMemory& memory = states_[state];
  if (!plan_.states.all()[state].begun || decay == 0) queue.copy(memory.data(), values_.data(), memory.bytes());
  plan_.states.begin(state);
  if (decay == 0) return;
  Blend kernel;
  kernel.value = values_.as<float>();
  kernel.copy = memory.as<float>();
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr;
  kernel.packs = static_cast<std::int64_t>(plan_.parameters.blended()) / kPack;
  kernel.decay = static_cast<float>(decay);
  kernel.write_back = write_back;
  queue.run(kernel);
}

void ParameterStore::swap_with(Queue& queue, std::string_view copy) {
  const std::size_t state = plan_.states.find_copy(copy);
  if (!plan_.states.all()[state].begun) return;  // it would start equal to the values
  Swap kernel;
  kernel.value = values_.as<float>();
  kernel.copy = states_[state].as<float>();
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr;
  kernel.packs = static_cast<std::int64_t>(plan_.parameters.blended()) / kPack;
  queue.run(kernel);
}

float* ParameterStore::state_of(std::string_view name, int index) const {
  const int state = plan_.states.find(name, index);
  if (state == StatePlan::kValues) return value(index);
  if (state == StatePlan::kGradients) return gradients_.at(index);
  return states_[static_cast<std::size_t>(state)].as<float>() + plan_.states.place(state, index);
}

std::vector<float> ParameterStore::read(Queue& queue, std::string_view state, int index) {
  const float* const source = state_of(state, index);
  const WeightLayout layout = layout_of(state, index);
  return from_memory(layout, transfer_.read(queue, source, layout.elements()));
}

void ParameterStore::write(Queue& queue, std::string_view state, int index, std::span<const float> values) {
  plan_.states.check_size(state, index, values);
  float* const destination = state_of(state, index);
  transfer_.write(queue, destination, to_memory(layout_of(state, index), values));
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
    return transfer_.room_for_copy(bytes);
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
  FloatToBf16 kernel;
  kernel.from = value(index);
  kernel.to = mirror_.as<Bf16>() + plan_.parameters.offset(index);
  kernel.packs = static_cast<std::int64_t>((plan_.parameters.elements(index) + kPack - 1) / kPack);
  queue.run(kernel);
  queue.mark()->wait();
}

}  // namespace millrace::cuda
