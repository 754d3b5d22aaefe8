#include "batch_line.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "millrace/error.h"

namespace millrace {

namespace {

class OwnBatch : public Batch {
 public:
  OwnBatch(std::uint32_t capacity, ImageShape shape, std::uint32_t numbers_each)
      : slots_(capacity),
        slot_pixels_(capacity * shape.bytes()),
        slot_numbers_(std::size_t{capacity} * numbers_each),
        slot_records_(capacity),
        slot_labels_(capacity, -1),
        slot_second_labels_(capacity, -1),
        slot_shares_(capacity, 1.0F),
        slot_weights_(capacity, 0.0F) {
    image = shape;
    samples = slots_;
    pixels = slot_pixels_.data();
    numbers_per_sample = numbers_each;
    numbers = slot_numbers_.data();
    records = slot_records_.data();
    labels = slot_labels_.data();
    second_labels = slot_second_labels_.data();
    shares = slot_shares_.data();
    weights = slot_weights_.data();
  }

 private:
  std::vector<Sample> slots_;
  std::vector<std::uint8_t> slot_pixels_;
  std::vector<float> slot_numbers_;
  std::vector<AugmentationRecord> slot_records_;
  std::vector<std::int32_t> slot_labels_, slot_second_labels_;
  std::vector<float> slot_shares_, slot_weights_;
};

// Keeps the packet that a stage sends.
class LastPacket : public Output {
 public:
  void emit(int port, Packet packet) override {
    if (port == 0) packet_ = std::move(packet);
  }
  void begin_hold() override {}
  void end_hold() override {}
  void fail(Error error) override { error_ = std::move(error); }

  Packet take() {
    if (error_) throw Error(*error_);
    return std::move(packet_);
  }

 private:
  Packet packet_;
  std::optional<Error> error_;
};

// The batch size if a run would choose it by its devices' memory.
std::uint32_t size_without_devices(std::uint64_t samples) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(samples, 1, 64));
}

bool changes_batches(const StageType& type) {
  const auto is_batch = [](const Port& port) { return port.payload == payload::kBatch; };
  return !type.per_replica && !type.stepwise && type.inputs.size() == 1 && is_batch(type.inputs.front()) &&
         !type.outputs.empty() && is_batch(type.outputs.front());
}

}  // namespace

BatchLine::BatchLine(const DataSet& data) : data_(data) {
  StepContext context;
  static_cast<DataContext&>(context) = data.context();
  context.graph = data.graph().name;
  context.image = data.build().data().image;
  context.target = data.build().data().target;
  context.samples_per_epoch = data.build().data().samples_per_epoch;
  for (const StagePlan& plan : data.graph().stages) {
    if (plan.type->role == StageType::Role::batcher) {
      spec_ = static_cast<const Batcher&>(*make(plan, context)).spec();
      if (spec_.size == 0) spec_.size = size_without_devices(context.samples_per_epoch);
      context.batch_size = spec_.size;
      context.steps_per_epoch = static_cast<double>(spec_.steps(context.samples_per_epoch, spec_.size));
    } else if (spec_.size > 0 && millrace::changes_batches(*plan.type)) {
      stages_.push_back(make(plan, context));
      stages_.back()->open();
    }
  }
}

std::shared_ptr<Stage> BatchLine::make(const StagePlan& plan, StepContext context) const {
  context.name = plan.name;
  context.at = plan.table_at();
  Diagnostics errors;
  try {
    std::shared_ptr<Stage> stage = plan.type->create(plan.table, context, errors);
    errors.throw_if_any();
    return stage;
  } catch (Error& error) {
    throw error.in(context.place());
  }
}

void BatchLine::fill(Batch& batch, std::uint32_t slot, const SampleKey& key) const {
  Sample& sample = batch.samples[slot];
  data_.load(key, DataLine::Depth::decoded, sample);
  if (!sample.fault && sample.image().shape != batch.image) {
    sample.fault = SampleFault{
        "batch", fmt::format("the image is {}, the batch holds {}", to_string(sample.image().shape), to_string(batch.image))};
  }
  if (sample.fault) return;
  place_window(sample, batch.window);
  std::memcpy(batch.change_pixels() + slot * batch.image.bytes(), sample.image().data, batch.image.bytes());
  batch.records[slot] = sample.record;
  batch.labels[slot] = sample.label;
  batch.weights[slot] = 1;
  std::copy_n(sample.numbers.begin(), std::min<std::size_t>(sample.numbers.size(), batch.numbers_per_sample),
              batch.numbers + std::size_t{slot} * batch.numbers_per_sample);
}

std::uint64_t BatchLine::steps() const {
  return std::max<std::uint64_t>(spec_.steps(data_.line().order().size(), spec_.size), 1);
}

Ref<Batch> BatchLine::load(std::uint64_t epoch, std::uint64_t number, unsigned threads) const {
  const SampleOrder& order = data_.line().order();
  const std::uint64_t size = order.size(), first = number * spec_.size;
  const Source& source = data_.line().source();
  const Ref<Batch> batch = make_ref<OwnBatch>(spec_.size, data_.build().data().image, source.has_rows() ? 0 : source.numbers());
  batch->epoch = epoch;
  batch->step = epoch * steps() + number;
  batch->window = data_.window().is_static() ? data_.window() : batch->image;
  batch->count = spec_.size;
  if (spec_.last != BatchSpec::Last::wrap) {
    batch->count = static_cast<std::uint32_t>(std::min<std::uint64_t>(batch->count, size - std::min(size, first)));
  }
  for_each_sample(batch->count, threads, [&](std::uint64_t slot, unsigned) {
    const std::uint64_t position = first + slot;
    fill(*batch, static_cast<std::uint32_t>(slot), {epoch, position, order.index(epoch, position % size), 0});
  });
  for (std::uint32_t slot = 0; slot < batch->count; ++slot) batch->weight += batch->weights[slot];
  Packet packet;
  packet.payload = batch;
  packet.sequence = batch->step;
  packet.count = batch->count;
  for (const std::shared_ptr<Stage>& stage : stages_) {
    LastPacket output;
    stage->process(0, std::move(packet), output);
    packet = output.take();
  }
  if (!packet.payload) fail(ErrorKind::run, "a stage after `batch` in [{}] sends no batch on", data_.graph().name);
  return Ref<Batch>(static_cast<Batch*>(packet.payload.get()));
}

}  // namespace millrace
