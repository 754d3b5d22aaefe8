#include "parameter_store.h"

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
    fail(ErrorKind::usage, "parameter '{}' would need two layouts on backend 'cuda'", parameter(index).name);
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
  plan_.place(elements, widths, kElementsAligned);
  launches_.plan(machine, std::move(matrices));
}

// The parameter lies as the network has it, whatever its shape.
bool ParameterStore::is_vector(int index) const {
  return layouts_[static_cast<std::size_t>(index)] == WeightLayout::vector(parameter(index).shape.elements());
}

MatrixShape ParameterStore::matrix_in_memory(int index) const {
  const WeightLayout& layout = layouts_[static_cast<std::size_t>(index)];
  if (is_vector(index)) return matrix_of(parameter(index));
  return {layout.out_pitch, layout.height * layout.width * layout.in_pitch};
}

// Columns of a matrix lie as they do in the weights, with their padding.
WeightLayout ParameterStore::layout_of(std::string_view state, int index) const {
  const WeightLayout& layout = layouts_[static_cast<std::size_t>(index)];
  const auto exactly = [](std::int64_t numbers) { return WeightLayout{numbers, 1, 1, 1, numbers, 1}; };
  switch (plan_.kind_of(state, index)) {
    case StateShape::element: return layout;
    case StateShape::rows: return exactly(matrix_of(parameter(index)).rows);
    case StateShape::columns: return is_vector(index) ? exactly(matrix_of(parameter(index)).columns) : layout.of_columns();
    case StateShape::scalar: break;
  }
  return exactly(1);
}

void ParameterStore::append_to(MemoryPlan& plan) const {
  plan_.append_to(plan, mirrored() ? plan_.all() : 0, launches_.norm_bytes(), launches_.workspace_bytes());
}

void ParameterStore::start(Machine& machine) {
  machine_ = &machine;
  const std::size_t trained = plan_.gradients();
  values_ = DeviceMemory(machine, plan_.all() * sizeof(float), "weights");
  if (mirrored()) mirror_ = DeviceMemory(machine, plan_.all() * sizeof(Bf16), "weights in bf16");
  gradients_ = DeviceMemory(machine, trained * sizeof(float), "gradients of weights");
  kept_gradients_ = DeviceMemory(machine, plan_.kept_gradients() * sizeof(float), "gradients of earlier pieces");
  for (const ParameterPlan::State& state : plan_.states()) {
    const DeviceMemory& memory = states_.emplace_back(machine, state.elements * sizeof(float), state.name + " of weights");
    for (const auto& part : state.initial) fill(machine, memory.as<float>() + part.begin, part.elements, part.value);
  }
  launches_.start(machine);
  transfer_.start(machine);
  for (Bucket& bucket : plan_.buckets()) bucket.gradients = trained > 0 ? gradient(bucket.parameters.front()) : nullptr;
}

void* ParameterStore::weights(int index) const {
  return mirrored() ? static_cast<void*>(mirror_.as<Bf16>() + plan_.offset(index)) : value(index);
}

UpdateArguments ParameterStore::arrays_of(const ParameterPlan::ParameterRange& range) const {
  const int first = range.parameters.front();
  UpdateArguments arguments;
  arguments.value = value(first);
  arguments.gradient = gradient(first);
  for (std::size_t k = 0; k < range.states.size(); ++k) {
    arguments.states[k] = states_[range.states[k]].as<float>() + plan_.place(static_cast<int>(range.states[k]), first);
  }
  arguments.bf16 = mirrored() ? mirror_.as<Bf16>() + plan_.offset(first) : nullptr;
  arguments.packs = static_cast<std::int64_t>(range.elements) / kPack;
  arguments.rows = range.rows;
  arguments.column_packs = range.column_packs;
  return arguments;
}

void ParameterStore::update(Queue& queue, int bucket, const UpdateStep& step) {
  launches_.update(queue, bucket, step, [this](const ParameterPlan::ParameterRange& range) { return arrays_of(range); });
}

void ParameterStore::lerp_into(Queue& queue, std::string_view copy, double decay, bool write_back) {
  const std::size_t state = plan_.find_copy(copy);
  const DeviceMemory& memory = states_[state];
  if (!plan_.states()[state].begun || decay == 0) queue.copy(memory.data(), values_.data(), memory.bytes());
  plan_.states()[state].begun = true;
  if (decay == 0) return;
  Blend kernel;
  kernel.value = values_.as<float>();
  kernel.copy = memory.as<float>();
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr;
  kernel.packs = static_cast<std::int64_t>(plan_.blended()) / kPack;
  kernel.decay = static_cast<float>(decay);
  kernel.write_back = write_back;
  queue.run(kernel);
}

void ParameterStore::swap_with(Queue& queue, std::string_view copy) {
  const std::size_t state = plan_.find_copy(copy);
  if (!plan_.states()[state].begun) return;  // it would begin as the values are
  Swap kernel;
  kernel.value = values_.as<float>();
  kernel.copy = states_[state].as<float>();
  kernel.bf16 = mirrored() ? mirror_.as<Bf16>() : nullptr;
  kernel.packs = static_cast<std::int64_t>(plan_.blended()) / kPack;
  queue.run(kernel);
}

void ParameterStore::keep_gradients(Queue& queue) {
  if (kept_gradients_.bytes() == 0) fail(ErrorKind::usage, "gradients are not kept: the network was compiled for whole batches");
  queue.copy(kept_gradients_.data(), gradients_.data(), kept_gradients_.bytes());
}

void ParameterStore::add_kept(Queue& queue, int bucket) {
  const Bucket& sum = buckets()[static_cast<std::size_t>(bucket)];
  SumArrays kernel;
  kernel.sources[0] = kept_gradients_.as<float>() + plan_.offset(sum.parameters.front());
  kernel.sources[1] = sum.gradients;
  kernel.count = 2;
  kernel.destination = sum.gradients;
  kernel.elements = static_cast<std::int64_t>(sum.elements);
  queue.run(kernel);
}

void ParameterStore::zero_gradients(Queue& queue) {
  if (gradients_.bytes() > 0) queue.zero(gradients_.data(), gradients_.bytes());
}

float* ParameterStore::state_of(std::string_view name, int index) const {
  const int state = plan_.find_state(name, index);
  if (state == ParameterPlan::kValues) return value(index);
  if (state == ParameterPlan::kGradients) return gradient(index);
  return states_[static_cast<std::size_t>(state)].as<float>() + plan_.place(state, index);
}

std::vector<float> ParameterStore::read(Queue& queue, std::string_view state, int index) {
  const float* const source = state_of(state, index);
  const WeightLayout layout = layout_of(state, index);
  return from_memory(layout, transfer_.read(queue, source, layout.elements()));
}

void ParameterStore::write(Queue& queue, std::string_view state, int index, std::span<const float> values) {
  plan_.check_size(state, index, values);
  float* const destination = state_of(state, index);
  transfer_.write(queue, destination, to_memory(layout_of(state, index), values));
  if (state == kValue && mirrored()) mirror(queue, index);
  plan_.written(plan_.find_state(state, index));
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
    } catch (const Error&) {  // or no more
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

}  // namespace

std::unique_ptr<Snapshot> ParameterStore::capture(Queue& queue, std::span<const StateOf> states) {
  std::vector<PinnedSnapshot::Part> parts;
  std::size_t bytes = 0;
  for (const StateOf& each : states) {
    const WeightLayout layout = layout_of(each.state, each.parameter);
    parts.push_back({layout, bytes});
    bytes += layout.elements() * sizeof(float);
  }
  std::shared_ptr<HostMemory> memory = transfer_.room_for_copy(bytes);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const float* const source = state_of(states[i].state, states[i].parameter);
    queue.copy_out(memory->data() + parts[i].offset, source, parts[i].layout.elements() * sizeof(float));
  }
  return std::make_unique<PinnedSnapshot>(*machine_, std::move(memory), std::move(parts), queue.mark());
}

void ParameterStore::mirror(Queue& queue, int index) {
  FloatToBf16 kernel;
  kernel.from = value(index);
  kernel.to = mirror_.as<Bf16>() + plan_.offset(index);
  kernel.packs = static_cast<std::int64_t>((plan_.elements(index) + kPack - 1) / kPack);
  queue.run(kernel);
  queue.mark()->wait();
}

}  // namespace millrace::cuda
