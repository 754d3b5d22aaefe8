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
    : machine_(machine), plans_(network), workspace_bytes_(plans_.workspace(losses, samples)), returned_(machine) {
  target_bytes_ = samples * TargetNeeds::of(network, losses).bytes(network.input) * sizeof(float);
}

void Losses::start() {
  workspace_ = DeviceMemory(machine_, workspace_bytes_, "losses");
  targets_ = DeviceMemory(machine_, target_bytes_, "targets");
}

void Losses::reserve(Queue& queue, DeviceMemory& memory, std::size_t bytes, const char* what) {
  if (memory.bytes() >= bytes) return;
  queue.mark()->wait();
  memory = DeviceMemory();
  memory = DeviceMemory(machine_, bytes, what);
}

const float* Losses::constants(Queue& queue, const LossPlan& plan) {
  const std::vector<float>& values = plan.constants();
  DeviceMemory& memory = constants_[&plan];
  if (values.empty() || memory.bytes() > 0) return memory.as<float>();
  memory = DeviceMemory(machine_, values.size() * sizeof(float), "constants of a loss");
  upload(machine_, queue, memory.data(), values);
  return memory.as<float>();
}

TensorView Losses::target_images(Queue& queue, const Loss& loss, const StagedBatch& batch, const float* table) {
  const bool classes = loss.info().target == LossTarget::classes;
  IngestTarget kernel{.pixels = batch.targets,
                      .records = batch.records,
                      .table = table,
                      .count = batch.count,
                      .image_height = batch.image.height,
                      .image_width = batch.image.width,
                      .channels = classes ? 1 : batch.image.channels,
                      .window_height = batch.window.height,
                      .window_width = batch.window.width,
                      .scale = batch.target.scale,
                      .classes = classes,
                      .ignored = batch.target.ignored};
  reserve(queue, targets_, static_cast<std::size_t>(kernel.size() * kernel.channels) * sizeof(float), "targets");
  kernel.out = targets_.as<float>();
  queue.run(kernel);
  return target_view(kernel.out, kernel.size() / batch.count, kernel.channels, classes);
}

TensorView Losses::target(Queue& queue, const Loss& loss, std::int64_t channels, const StagedBatch& batch, const float* table) {
  if (loss.info().target == LossTarget::labels) return {};
  if (batch.targets != nullptr) return target_images(queue, loss, batch, table);
  if (loss.info().target != LossTarget::values || batch.numbers == nullptr) {
    fail(ErrorKind::usage, "loss '{}': its targets are not on the device: name it in CompileRequest::losses", loss.info().name);
  }
  return target_view(batch.numbers, 1, channels);
}

Ref<Event> Losses::run(Queue& queue, const LossTerm& term, const At& at, const StagedBatch& batch, const float* table) {
  const LossPlan& plan = plans_.of({term.loss, term.output});
  LossTensors tensors;
  tensors.samples = batch.count;
  tensors.output = view_of(at.output.spec, at.output.data);
  if (at.d_output != nullptr) tensors.d_output = view_of(at.d_output->spec, at.d_output->data);
  tensors.d_output.add = at.add;
  tensors.weights = batch.weights;
  tensors.labels = batch.labels;
  tensors.second_labels = batch.second_labels;
  tensors.shares = batch.shares;
  tensors.constants = constants(queue, plan);
  tensors.target = target(queue, *term.loss, at.output.spec.channels, batch, table);
  tensors.divisor = term.divisor;
  reserve(queue, workspace_, plan.workspace(batch.count), "losses");
  plan.run(tensors, workspace_.data(), [&](const Kernel& kernel, const void* element) { queue.run(kernel, element); });
  return returned_.submit(queue, workspace_.as<double>(), plan.sums(), *term.sums);
}

void Losses::clear(const LossTerm& term) { term.sums->values.assign(plans_.of({term.loss, term.output}).sums(), 0.0); }

}  // namespace millrace::cuda
