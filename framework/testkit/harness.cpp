#include "testkit/harness.h"

#include <chrono>
#include <thread>

#include "millrace/batch.h"

namespace millrace::testkit {

void RecordedRun::report(const StepReport& report) {
  const std::lock_guard lock(mutex_);
  reports_.push_back(
      {std::string(report.graph), report.epoch, report.step, report.stream_hash, report.samples, report.sums, report.auxiliary});
}

void RecordedRun::figure(std::string_view, const Figure& figure) {
  const std::scoped_lock lock(mutex_);
  figures_.push_back(figure);
}

std::vector<Figure> RecordedRun::figures() const {
  const std::scoped_lock lock(mutex_);
  return figures_;
}

void RecordedRun::scalar(std::string_view, std::uint64_t step, std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  scalars_[step][std::string(name)] = value;
}

void RecordedRun::bad_sample(std::string_view, const Sample& sample, std::string_view action) {
  const SampleFault fault = sample.fault.value_or(SampleFault{});
  const std::lock_guard lock(mutex_);
  bad_samples_.push_back({sample.url, fault.stage, fault.cause, std::string(action), sample.key});
}

void RecordedRun::warn(std::string_view message) {
  const std::lock_guard lock(mutex_);
  warnings_.emplace_back(message);
}

void RecordedRun::not_finite(std::string_view, std::uint64_t step, std::string_view what) {
  const std::lock_guard lock(mutex_);
  not_finite_.emplace(step, what);
}

std::vector<RecordedRun::Report> RecordedRun::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

std::map<std::string, double> RecordedRun::scalars(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  const auto found = scalars_.find(step);
  return found == scalars_.end() ? std::map<std::string, double>{} : found->second;
}

std::vector<RecordedRun::BadSample> RecordedRun::bad_samples() const {
  const std::lock_guard lock(mutex_);
  return bad_samples_;
}

std::vector<std::string> RecordedRun::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

std::map<std::uint64_t, std::string> RecordedRun::not_finite() const {
  const std::lock_guard lock(mutex_);
  return not_finite_;
}

void CollectingOutput::emit(int port, Packet packet) {
  const std::lock_guard lock(mutex_);
  packets_[port].push_back(std::move(packet));
}

void CollectingOutput::begin_hold() {
  const std::lock_guard lock(mutex_);
  ++holds_;
}

void CollectingOutput::end_hold() {
  const std::lock_guard lock(mutex_);
  --holds_;
}

void CollectingOutput::fail(Error error) {
  const std::lock_guard lock(mutex_);
  errors_.push_back(std::move(error));
}

std::vector<Packet> CollectingOutput::take(int port) {
  const std::lock_guard lock(mutex_);
  return std::exchange(packets_[port], {});
}

int CollectingOutput::holds() const {
  const std::lock_guard lock(mutex_);
  return holds_;
}

std::vector<Error> CollectingOutput::errors() const {
  const std::lock_guard lock(mutex_);
  return errors_;
}

void CollectingOutput::wait_until_free() {
  while (holds() > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

Harness::Harness(const StageType& type, const Value& table, StepContext context) : context_(std::move(context)) {
  if (context_.graph.empty()) context_.graph = "test";
  if (context_.name.empty()) context_.name = type.name;
  if (context_.run == nullptr) context_.run = &run_;
  Diagnostics errors;
  stage_ = type.create(table, context_, errors);
  errors.throw_if_any();
}

Harness::Harness(std::shared_ptr<Stage> stage) : stage_(std::move(stage)) {}

Harness::~Harness() {
  if (stage_) stage_->stop();
}

Value table(std::initializer_list<std::pair<const char*, Value>> members) {
  Value value;
  for (const auto& [key, member] : members) value.set(key, member);
  return value;
}

namespace {

class OwnBatch : public Batch {
 public:
  OwnBatch(std::uint32_t capacity, ImageShape shape)
      : slots_(capacity),
        pixels_(capacity * shape.bytes()),
        records_(capacity),
        source_maps_(capacity),
        labels_(capacity, -1),
        second_labels_(capacity, -1),
        shares_(capacity, 1.0F),
        weights_(capacity, 1.0F) {
    image = shape;
    samples = slots_;
    pixels = pixels_.data();
    records = records_.data();
    source_maps = source_maps_.data();
    labels = labels_.data();
    second_labels = second_labels_.data();
    shares = shares_.data();
    weights = weights_.data();
    for (std::uint32_t slot = 0; slot < capacity; ++slot) {
      samples[slot].reset({0, slot, slot, 0}, {pixels_.data() + slot * shape.bytes(), shape});
    }
  }

 private:
  std::vector<Sample> slots_;
  std::vector<std::uint8_t> pixels_;
  std::vector<AugmentationRecord> records_;
  std::vector<SourceMap> source_maps_;
  std::vector<std::int32_t> labels_, second_labels_;
  std::vector<float> shares_;
  std::vector<float> weights_;
};

}  // namespace

Ref<Batch> make_batch(std::uint32_t capacity, ImageShape image, ImageShape window) {
  Ref<Batch> batch = make_ref<OwnBatch>(capacity, image);
  batch->window = window.is_static() ? window : image;
  batch->count = batch->global_count = capacity;
  batch->weight = capacity;
  batch->missing = capacity;
  return batch;
}

Packet packet(Ref<Payload> payload, std::uint64_t sequence) {
  Packet made;
  made.payload = std::move(payload);
  made.sequence = sequence;
  return made;
}

Packet chunk(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count) {
  Packet made = packet(batch, batch->step);
  made.begin = begin;
  made.count = count;
  return made;
}

Packet whole(const Ref<Batch>& batch) { return chunk(batch, 0, batch->count); }

}  // namespace millrace::testkit
