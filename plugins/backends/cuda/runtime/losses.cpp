#include "losses.h"

#include <algorithm>
#include <cstring>

#include "millrace/error.h"

namespace millrace::cuda {

Losses::Losses(Machine& machine, const Network& network, const std::vector<std::shared_ptr<const Loss>>& losses,
               std::uint32_t samples)
    : machine_(machine), output_(network.output()), returned_(machine) {
  for (const auto& loss : losses) workspace_bytes_ = std::max(workspace_bytes_, planned(loss).plan.workspace(samples));
  target_bytes_ = samples * TargetNeeds::of(network, losses).bytes(network.input) * sizeof(float);
}

void Losses::start() {
  workspace_ = DeviceMemory(machine_, workspace_bytes_, "losses");
  targets_ = DeviceMemory(machine_, target_bytes_, "targets");
}

Losses::Planned& Losses::planned(const std::shared_ptr<const Loss>& loss) {
  const auto found = plans_.find(loss);
  return found != plans_.end() ? found->second : plans_.emplace(loss, Planned{LossPlan(loss, output_), {}}).first->second;
}

void Losses::reserve(Queue& queue, DeviceMemory& memory, std::size_t bytes, const char* what) {
  if (memory.bytes() >= bytes) return;
  queue.mark()->wait();
  memory = DeviceMemory();
  memory = DeviceMemory(machine_, bytes, what);
}

const float* Losses::constants(Queue& queue, Planned& planned) {
  const std::vector<float>& values = planned.plan.constants();
  if (values.empty() || planned.constants.bytes() > 0) return planned.constants.as<float>();
  planned.constants = DeviceMemory(machine_, values.size() * sizeof(float), "constants of a loss");
  const HostMemory host(machine_, planned.constants.bytes());
  machine_.host_access(host.data(), host.bytes(), true);
  std::memcpy(host.data(), values.data(), host.bytes());
  queue.copy_in(planned.constants.data(), host.data(), host.bytes());
  queue.mark()->wait();
  return planned.constants.as<float>();
}

TensorView Losses::target_images(Queue& queue, const Loss& loss, const StagedBatch& batch, const float* table) {
  const bool classes = loss.info().target == LossTarget::classes;
  IngestTarget kernel;
  kernel.pixels = batch.targets;
  kernel.records = batch.records;
  kernel.table = table;
  kernel.count = batch.count;
  kernel.image_height = batch.image.height;
  kernel.image_width = batch.image.width;
  kernel.channels = classes ? 1 : batch.image.channels;
  kernel.window_height = batch.window.height;
  kernel.window_width = batch.window.width;
  kernel.scale = batch.target.scale;
  kernel.classes = classes;
  kernel.ignored = batch.target.ignored;
  reserve(queue, targets_, static_cast<std::size_t>(kernel.size() * kernel.channels) * sizeof(float), "targets");
  kernel.out = targets_.as<float>();
  queue.run(kernel);
  TensorView view;
  view.data = targets_.data();
  view.stride_n = kernel.size() / batch.count * kernel.channels;
  view.stride_pixel = kernel.channels;
  view.padded = kernel.channels;
  view.by_channel = !classes;
  return view;
}

TensorView Losses::target(Queue& queue, const Loss& loss, const StagedBatch& batch, const float* table) {
  if (loss.info().target == LossTarget::labels) return {};
  if (batch.targets != nullptr) return target_images(queue, loss, batch, table);
  if (loss.info().target != LossTarget::values || batch.numbers == nullptr) {
    fail(ErrorKind::usage, "loss '{}': its targets are not on the device: name it in CompileRequest::losses", loss.info().name);
  }
  TensorView view;
  view.data = const_cast<float*>(batch.numbers);  // read
  view.stride_n = output_[0];
  view.padded = output_[0];
  return view;
}

Ref<Event> Losses::run(Queue& queue, const std::shared_ptr<const Loss>& loss, const Map& output, const Map* d_output,
                       const StagedBatch& batch, const float* table, double divisor, StepSums& sums) {
  Planned& planned = this->planned(loss);
  LossTensors tensors;
  tensors.samples = batch.count;
  tensors.output = view_of(output.spec, output.data);
  if (d_output != nullptr) tensors.d_output = view_of(d_output->spec, d_output->data);
  tensors.weights = batch.weights;
  tensors.labels = batch.labels;
  tensors.second_labels = batch.second_labels;
  tensors.shares = batch.shares;
  tensors.constants = constants(queue, planned);
  tensors.target = target(queue, *loss, batch, table);
  tensors.divisor = divisor;
  reserve(queue, workspace_, planned.plan.workspace(batch.count), "losses");
  planned.plan.run(tensors, workspace_.data(), [&](const Kernel& kernel, const void* element) { queue.run(kernel, element); });
  return returned_.submit(queue, workspace_.as<double>(), planned.plan.sums(), sums);
}

void Losses::clear(const std::shared_ptr<const Loss>& loss, StepSums& sums) {
  sums.values.assign(planned(loss).plan.sums(), 0.0);
}

}  // namespace millrace::cuda
