#include <algorithm>
#include <utility>

#include "millrace/detail/random.h"
#include "testkit/harness.h"
#include "testkit/recorder.h"

namespace millrace::testkit {
namespace {

// The parts of a batch that a device reads.
std::uint64_t content_hash(const Batch& batch, std::uint32_t begin, std::uint32_t count) {
  std::uint64_t hash = combine(batch.epoch, batch.step);
  const auto add = [&](const auto* items, std::size_t each) {
    hash = hash_bytes(items + begin * each, count * each * sizeof(*items), hash);
  };
  add(batch.pixels, batch.image.bytes());
  add(batch.labels, 1);
  add(batch.weights, 1);
  if (batch.shares != nullptr) {
    add(batch.second_labels, 1);
    add(batch.shares, 1);
  }
  for (std::uint32_t n = begin; n < begin + count; ++n) {  // field by field: padding is undefined
    const AugmentationRecord& record = batch.records[n];
    const std::int32_t fields[] = {record.x, record.y, record.step_x, record.step_y, static_cast<std::int32_t>(record.border)};
    hash = hash_bytes(record.fill, sizeof record.fill, hash_bytes(fields, sizeof fields, hash));
  }
  return hash;
}

Ref<Batch> copy_of(const Batch& batch) {
  Ref<Batch> copy = make_batch(batch.capacity(), batch.image, batch.window);
  copy->epoch = batch.epoch;
  copy->step = batch.step;
  copy->count = batch.count;
  copy->weight = batch.weight;
  std::copy_n(batch.pixels, batch.capacity() * batch.image.bytes(), copy->change_pixels());
  std::copy_n(batch.labels, batch.capacity(), copy->labels);
  std::copy_n(batch.weights, batch.capacity(), copy->weights);
  std::copy_n(batch.records, batch.capacity(), copy->records);
  if (batch.shares == nullptr) {
    copy->second_labels = nullptr;
    copy->shares = nullptr;
  } else {
    std::copy_n(batch.second_labels, batch.capacity(), copy->second_labels);
    std::copy_n(batch.shares, batch.capacity(), copy->shares);
  }
  return copy;
}

class RecordedReplica : public Replica {
 public:
  RecordedReplica(std::shared_ptr<Recorder> recorder, std::unique_ptr<Replica> inner)
      : recorder_(std::move(recorder)),
        inner_(std::move(inner)),
        index_(recorder_->next_replica()),
        stream_(checker().add_stream()),
        queue_(recorder_->options().seed * 1000 + static_cast<std::uint64_t>(stream_), recorder_->options().longest_delay) {}

  MemoryPlan memory_plan() const override { return inner_->memory_plan(); }
  const std::vector<Bucket>& buckets() const override { return inner_->buckets(); }

  void start() override {
    inner_->start();
    for (std::size_t b = 0; b < buckets().size(); ++b) recorder_->name_gradients(index_, static_cast<int>(b), buckets()[b]);
  }

  void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) override {
    filled_ = filled_buckets(buckets(), batch->epoch);
    read_late("forward_backward.ingest", std::move(batch), begin, count,
              [this](const Ref<Batch>& read, std::uint32_t from, std::uint32_t samples) { inner_->ingest(read, from, samples); });
  }

  void forward(std::uint64_t step) override {
    step_ = step;
    note("forward_backward.forward", parameters(false));
    run([this, step] { inner_->forward(step); });
  }

  Ref<Event> losses(std::span<const LossTerm> terms) override {
    Clock clock = note("forward_backward.loss", {});
    run([this, all = std::vector<LossTerm>(terms.begin(), terms.end())] { inner_->losses(all)->wait(); });
    return record_on(queue_, *recorder_, std::move(clock));
  }

  void backward(BucketReady ready) override {
    note("forward_backward.backward", parameters(false));
    std::vector<Ref<RecordedEvent>> filled;
    for (std::size_t b = 0; b < filled_; ++b) {
      const auto bucket = static_cast<int>(b);
      filled.push_back(make_ref<RecordedEvent>(checker(), note("forward_backward.backward", {gradients(bucket, true)}, bucket)));
    }
    run([this, filled] {
      inner_->backward([filled](int bucket, Ref<Event> done) {
        done->then([event = filled[static_cast<std::size_t>(bucket)]](const Error* failure) { event->signal(failure); });
      });
    });
    queue_.submit_always([this, filled] {  // after an error nothing may wait for ever
      const std::optional<Error> failure = queue_.failure();
      for (const Ref<RecordedEvent>& event : filled) event->signal(failure ? &*failure : nullptr);
    });
    for (std::size_t b = 0; b < filled.size(); ++b) ready(static_cast<int>(b), filled[b]);
  }

  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) override {
    const Operation operation{"optimizer.update", step.step, index_, bucket};
    if (!recorder_->forget_after()) wait_on(queue_, *recorder_, stream_, after);
    const std::uint64_t found = checker().step_of(gradients_of(index_, bucket));
    if (found != step.step) {
      const Operation filling{"forward_backward.backward", found, index_, bucket};
      checker().report({"gradients of another step", operation, filling, gradients_of(index_, bucket)});
    }
    Access written = parameters(true)[static_cast<std::size_t>(bucket)];
    Clock clock = checker().submit(stream_, operation, {gradients(bucket, false), written});
    run([this, bucket, step, factors = std::vector<double>(step.rate_factor.begin(), step.rate_factor.end())] {
      UpdateStep copied = step;
      copied.rate_factor = factors;
      inner_->update(bucket, copied, nullptr)->wait();
    });
    return record_on(queue_, *recorder_, std::move(clock));
  }

  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) override {
    Clock clock = note("optimizer.lerp_into", parameters(true));
    run([this, name = std::string(copy), decay, write_back] { inner_->lerp_into(name, decay, write_back)->wait(); });
    return record_on(queue_, *recorder_, std::move(clock));
  }

  void keep_gradients() override {
    std::vector<Access> accesses;
    for (std::size_t b = 0; b < buckets().size(); ++b) accesses.push_back(gradients(static_cast<int>(b), false));
    note("forward_backward.keep_gradients", accesses);
    run([this] { inner_->keep_gradients(); });
  }

  Ref<Event> swap_with(std::string_view copy) override {
    Clock clock = note("exchange", parameters(true));
    run([this, name = std::string(copy)] { inner_->swap_with(name)->wait(); });
    return record_on(queue_, *recorder_, std::move(clock));
  }

  Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                   const std::shared_ptr<const Loss>& loss, StepSums& sums) override {
    Clock clock = note("forward.infer", parameters(false));
    read_late("forward.infer", std::move(batch), begin, count,
              [this, copied = std::vector<View>(views.begin(), views.end()), loss, &sums](
                  const Ref<Batch>& read, std::uint32_t from, std::uint32_t samples) {
                inner_->infer(read, from, samples, copied, loss, sums)->wait();
              });
    return record_on(queue_, *recorder_, std::move(clock));
  }

  Ref<Event> read_outputs(std::span<const OutputCopy> copies) override {
    Clock clock = note("forward.read_outputs", {});
    run([this, copied = std::vector<OutputCopy>(copies.begin(), copies.end())] { inner_->read_outputs(copied)->wait(); });
    return record_on(queue_, *recorder_, std::move(clock));
  }

  Ref<Event> read_gradients(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count,
                            std::span<const GradientCopy> copies) override {
    Clock clock = note("forward.read_gradients", parameters(false));
    read_late("forward.read_gradients", std::move(batch), begin, count,
              [this, copied = std::vector<GradientCopy>(copies.begin(), copies.end())](const Ref<Batch>& read, std::uint32_t from,
                                                                                       std::uint32_t samples) {
                inner_->read_gradients(read, from, samples, copied)->wait();
              });
    return record_on(queue_, *recorder_, std::move(clock));
  }

  std::vector<float> logits() override {
    finish();
    return inner_->logits();
  }

  std::vector<std::string> states() const override { return inner_->states(); }
  std::optional<Shape> state_shape(std::string_view state, int parameter) const override {
    return inner_->state_shape(state, parameter);
  }

  std::vector<float> read(std::string_view state, int parameter) override {
    finish();
    if (state == kGradient) {
      for (std::size_t b = 0; b < buckets().size(); ++b) {
        const std::vector<int>& held = buckets()[b].parameters;
        if (std::find(held.begin(), held.end(), parameter) == held.end()) continue;
        const auto bucket = static_cast<int>(b);
        checker().submit(recorder_->host_stream(), {"read", step_, index_, bucket}, {gradients(bucket, false)});
      }
    }
    return inner_->read(state, parameter);
  }

  void write(std::string_view state, int parameter, std::span<const float> values) override {
    finish();
    inner_->write(state, parameter, values);
  }

  void finish() override {
    queue_.drain();
    inner_->finish();
    checker().seen_by_host(checker().now(stream_));
  }

 private:
  using Read = std::function<void(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count)>;

  OrderChecker& checker() { return recorder_->checker(); }

  Clock note(const char* name, const std::vector<Access>& accesses, int bucket = -1) {
    return checker().submit(stream_, {name, step_, index_, bucket}, accesses);
  }
  Access gradients(int bucket, bool write) const {
    const Bucket& memory = buckets()[static_cast<std::size_t>(bucket)];
    Access access = recorder_->find(memory.gradients, memory.elements).access;
    access.write = write;
    return access;
  }
  std::vector<Access> parameters(bool write) const {  // by bucket
    std::vector<Access> accesses;
    for (std::size_t b = 0; b < buckets().size(); ++b)
      accesses.push_back({parameters_of(index_, static_cast<int>(b)), 0, 1, write});
    return accesses;
  }

  void run(std::function<void()> work) {
    queue_.submit([this, work = std::move(work)] {
      work();
      inner_->finish();
    });
  }

  void read_late(const char* name, Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, Read read) {
    const Operation operation{name, batch->step, index_, -1};
    const std::shared_ptr<PendingRead> pending = recorder_->begin_read(*batch, operation);
    if (recorder_->release_early()) {
      // Only the order is faulty: the late read uses a copy, so that its content is defined.
      run([this, copy = copy_of(*batch), begin, count, read, pending] {
        recorder_->wait_until_reused(*pending);
        read(copy, begin, count);
      });
      queue_.submit_always([this, pending] { recorder_->end_read(pending); });
      return;
    }
    ++batch->in_flight;
    run([this, batch, begin, count, read, operation, hash = content_hash(*batch, begin, count)] {
      if (content_hash(*batch, begin, count) != hash) {
        const Operation refill{"refill", batch->step, -1, -1};
        checker().report({"buffer reused in flight", refill, operation, "batch buffer"});
      }
      read(batch, begin, count);
    });
    queue_.submit_always([this, batch, pending]() mutable {
      recorder_->end_read(pending);
      --batch->in_flight;
      batch = nullptr;
    });
  }

  std::shared_ptr<Recorder> recorder_;
  std::unique_ptr<Replica> inner_;
  const int index_;
  const int stream_;
  std::uint64_t step_ = 0;
  std::size_t filled_ = 0;  // in the current pass
  TaskQueue queue_;         // last, since its thread uses the other members
};

}  // namespace

std::unique_ptr<Replica> record_replica(std::shared_ptr<Recorder> recorder, std::unique_ptr<Replica> inner) {
  return std::make_unique<RecordedReplica>(std::move(recorder), std::move(inner));
}

}  // namespace millrace::testkit
