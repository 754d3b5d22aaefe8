#include "losses.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "millrace/error.h"

namespace millrace::cuda {

bool SumsEvent::complete() const {
  if (!copied_->complete()) return false;
  try {
    deliver();
  } catch (const Error&) {  // wait() throws it
  }
  return true;
}

void SumsEvent::wait() const { deliver(); }

void SumsEvent::then(Callback done) {
  copied_->then([self = Ref<SumsEvent>(this), done = std::move(done)](const Error* failure) {
    std::optional<Error> later;  // of the events before: their sums are missing
    try {
      if (failure == nullptr) self->deliver();
    } catch (...) {
      later = current_error();
    }
    done(later ? &*later : failure);
  });
}

void SumsEvent::deliver() const {
  std::call_once(once_, [this] {
    copied_->wait();  // throws if the device has failed: the host memory then does not hold the sums
    if (before_) before_->deliver();
    before_ = nullptr;
    machine_.host_access(from_->data(), count_ * sizeof(double), false);
    to_->values.resize(count_);
    std::memcpy(to_->values.data(), from_->data(), count_ * sizeof(double));
    from_ = nullptr;
  });
}

std::shared_ptr<HostMemory> SumsReturn::free_place(std::size_t bytes) {
  for (const std::shared_ptr<HostMemory>& place : places_) {
    if (place.use_count() == 1 && place->bytes() >= bytes) return place;
  }
  return places_.emplace_back(std::make_shared<HostMemory>(machine_, bytes));
}

Ref<Event> SumsReturn::submit(Queue& queue, const double* device, std::size_t count, StepSums& sums) {
  std::erase_if(pending_, [](const Ref<SumsEvent>& event) { return event->complete(); });
  std::shared_ptr<HostMemory> place = free_place(count * sizeof(double));
  queue.copy_out(place->data(), device, count * sizeof(double));
  Ref<SumsEvent> before = pending_.empty() ? nullptr : pending_.back();
  return pending_.emplace_back(make_ref<SumsEvent>(machine_, queue.mark(), std::move(place), count, sums, std::move(before)));
}

void SumsReturn::deliver() {
  for (const Ref<SumsEvent>& event : pending_) event->wait();
  pending_.clear();
}

Losses::Losses(Machine& machine, const Network& network, std::span<const LossAt> losses, std::uint32_t samples)
    : machine_(machine), network_(network), returned_(machine) {
  for (const LossAt& loss : losses) workspace_bytes_ = std::max(workspace_bytes_, planned(loss).plan.workspace(samples));
  target_bytes_ = samples * TargetNeeds::of(network, losses).bytes(network.input) * sizeof(float);
}

void Losses::start() {
  workspace_ = DeviceMemory(machine_, workspace_bytes_, "losses");
  targets_ = DeviceMemory(machine_, target_bytes_, "targets");
}

Losses::Planned& Losses::planned(const LossAt& loss) {
  const LayerPort at = loss.output.value_or(network_.result());
  const std::pair key(loss.loss, at);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  return plans_.emplace(key, Planned{LossPlan(loss.loss, network_.shape_of(at)), {}}).first->second;
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

TensorView Losses::target(Queue& queue, const Loss& loss, std::int64_t channels, const StagedBatch& batch, const float* table) {
  if (loss.info().target == LossTarget::labels) return {};
  if (batch.targets != nullptr) return target_images(queue, loss, batch, table);
  if (loss.info().target != LossTarget::values || batch.numbers == nullptr) {
    fail(ErrorKind::usage, "loss '{}': its targets are not on the device: name it in CompileRequest::losses", loss.info().name);
  }
  TensorView view;
  view.data = const_cast<float*>(batch.numbers);  // only read
  view.stride_n = channels;
  view.padded = channels;
  return view;
}

Ref<Event> Losses::run(Queue& queue, const LossTerm& term, const At& at, const StagedBatch& batch, const float* table) {
  Planned& planned = this->planned({term.loss, term.output});
  LossTensors tensors;
  tensors.samples = batch.count;
  tensors.output = view_of(at.output.spec, at.output.data);
  if (at.d_output != nullptr) tensors.d_output = view_of(at.d_output->spec, at.d_output->data);
  tensors.d_output.add = at.add;
  tensors.weights = batch.weights;
  tensors.labels = batch.labels;
  tensors.second_labels = batch.second_labels;
  tensors.shares = batch.shares;
  tensors.constants = constants(queue, planned);
  tensors.target = target(queue, *term.loss, at.output.spec.channels, batch, table);
  tensors.divisor = term.divisor;
  reserve(queue, workspace_, planned.plan.workspace(batch.count), "losses");
  planned.plan.run(tensors, workspace_.data(), [&](const Kernel& kernel, const void* element) { queue.run(kernel, element); });
  return returned_.submit(queue, workspace_.as<double>(), planned.plan.sums(), *term.sums);
}

void Losses::clear(const LossTerm& term) { term.sums->values.assign(planned({term.loss, term.output}).plan.sums(), 0.0); }

}  // namespace millrace::cuda
