#include "testkit/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "testkit/harness.h"
#include "testkit/recording_queue.h"

namespace millrace::testkit {

namespace {

std::string gradients_of(int replica, int bucket) { return fmt::format("gradients of bucket {} on replica {}", bucket, replica); }
std::string parameters_of(int replica, int bucket) {
  return fmt::format("parameters of bucket {} on replica {}", bucket, replica);
}

}  // namespace

// ---- The parts of the backend share the checker, the planted faults, and the names of memory ----

// A batch that a device has not read yet.
struct PendingRead {
  const std::uint8_t* pixels = nullptr;
  Operation operation;
  bool reused = false;
};

// Thread-safe.
class Recorder {
 public:
  explicit Recorder(const RecordingOptions& options) : options_(options), host_stream_(checker_.add_stream()) {}

  OrderChecker& checker() { return checker_; }
  const RecordingOptions& options() const { return options_; }
  int host_stream() const { return host_stream_; }
  int next_replica() { return replicas_++; }

  // Whether a planted fault applies to this call.
  bool forget_wait() { return ++waits_ == options_.leave_out_wait; }
  bool release_early() { return ++ingests_ == options_.release_batch_early; }
  bool forget_after() { return ++updates_ == options_.ignore_after; }

  // Device memory by address. Memory without a name is a separate region.
  struct Memory {
    Access access;
    int replica = -1;
    int bucket = -1;
  };
  void name_gradients(int replica, int bucket, const Bucket& memory);
  Memory find(const float* data, std::size_t elements) const;

  // Records the coming read of a batch, and reports pending reads of other content from the same buffer.
  std::shared_ptr<PendingRead> begin_read(const Batch& batch, const Operation& operation);
  void end_read(const std::shared_ptr<PendingRead>& read);
  void wait_until_reused(const PendingRead& read);  // or for a minute

 private:
  const RecordingOptions options_;
  OrderChecker checker_;
  const int host_stream_;
  std::atomic<int> replicas_{0};
  std::atomic<std::uint64_t> waits_{0}, ingests_{0}, updates_{0};
  mutable std::mutex mutex_;
  std::condition_variable reused_;
  std::map<std::uintptr_t, Memory> memory_;  // by its end
  std::list<std::shared_ptr<PendingRead>> reads_;
};

void Recorder::name_gradients(int replica, int bucket, const Bucket& memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.gradients);
  const std::uintptr_t end = begin + memory.elements * sizeof(float);
  const std::scoped_lock lock(mutex_);
  memory_[end] = {{gradients_of(replica, bucket), begin, end, false}, replica, bucket};
}

Recorder::Memory Recorder::find(const float* data, std::size_t elements) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  Memory result{
      {fmt::format("memory at {}", static_cast<const void*>(data)), begin, begin + elements * sizeof(float), false}, -1, -1};
  const std::scoped_lock lock(mutex_);
  const auto known = memory_.upper_bound(begin);
  if (known == memory_.end() || known->second.access.begin > begin) return result;
  result.access.region = known->second.access.region;
  result.replica = known->second.replica;
  result.bucket = known->second.bucket;
  return result;
}

std::shared_ptr<PendingRead> Recorder::begin_read(const Batch& batch, const Operation& operation) {
  auto read = std::make_shared<PendingRead>(PendingRead{batch.pixels, operation, false});
  const std::scoped_lock lock(mutex_);
  for (const std::shared_ptr<PendingRead>& pending : reads_) {
    if (pending->pixels != batch.pixels || pending->operation.step == operation.step || pending->reused) continue;
    pending->reused = true;
    checker_.report({"buffer reused in flight", operation, pending->operation, "batch buffer"});
  }
  reads_.push_back(read);
  reused_.notify_all();
  return read;
}

void Recorder::end_read(const std::shared_ptr<PendingRead>& read) {
  const std::scoped_lock lock(mutex_);
  reads_.remove(read);
}

void Recorder::wait_until_reused(const PendingRead& read) {
  std::unique_lock lock(mutex_);
  reused_.wait_for(lock, std::chrono::minutes(1), [&read] { return read.reused; });
}

namespace {

// An event at the end of `queue`'s current work.
Ref<RecordedEvent> record_on(TaskQueue& queue, Recorder& recorder, Clock clock) {
  auto event = make_ref<RecordedEvent>(recorder.checker(), std::move(clock));
  queue.submit_always([event, &queue] {
    const std::optional<Error> failure = queue.failure();
    event->signal(failure ? &*failure : nullptr);
  });
  return event;
}

// `queue`, which is `stream`, waits for an event of any backend.
void wait_on(TaskQueue& queue, Recorder& recorder, int stream, const Ref<Event>& event) {
  if (!event) return;
  if (const auto* recorded = dynamic_cast<const RecordedEvent*>(event.get())) {
    recorder.checker().wait(stream, recorded->clock());
    queue.submit_always([event, recorded] { recorded->wait_as_device(); });
  } else {
    queue.submit_always([event] { event->wait(); });
  }
}

// ---- Replicas ----

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

// ---- Streams and devices ----

class RecordedStream : public Stream {
 public:
  RecordedStream(std::shared_ptr<Recorder> recorder, std::unique_ptr<Stream> inner, const std::string& name)
      : recorder_(std::move(recorder)),
        inner_(std::move(inner)),
        stage_(name.substr(0, name.find('['))),
        stream_(recorder_->checker().add_stream()),
        queue_(recorder_->options().seed * 1000 + static_cast<std::uint64_t>(stream_), recorder_->options().longest_delay) {}

  void wait(const Ref<Event>& event) override {
    if (event && recorder_->forget_wait()) return;
    wait_on(queue_, *recorder_, stream_, event);
  }

  Ref<Event> record() override { return record_on(queue_, *recorder_, recorder_->checker().now(stream_)); }

  void sum(float* destination, std::span<const float* const> sources, std::size_t elements) override {
    submit("sum", destination, sources, elements);
    queue_.submit([this, destination, copied = std::vector<const float*>(sources.begin(), sources.end()), elements] {
      inner_->sum(destination, copied, elements);
      inner_->record()->wait();
    });
  }

  void copy(float* destination, const float* source, std::size_t elements) override {
    submit("copy", destination, {&source, 1}, elements);
    queue_.submit([this, destination, source, elements] {
      inner_->copy(destination, source, elements);
      inner_->record()->wait();
    });
  }

  void run(const Kernel& kernel, const void* element) override {
    const auto* const bytes = static_cast<const std::byte*>(element);
    submit(kernel.name, kernel.uses(element));
    queue_.submit([this, &kernel, copied = std::vector<std::byte>(bytes, bytes + kernel.bytes)] {
      inner_->run(kernel, copied.data());
      inner_->record()->wait();
    });
  }

  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    submit("copy to host", {{device, bytes, false}});
    queue_.submit([this, host, device, bytes] {
      inner_->copy_to_host(host, device, bytes);
      inner_->record()->wait();
    });
  }

 private:
  void submit(const char* what, const float* destination, std::span<const float* const> sources, std::size_t elements) {
    Recorder::Memory target = recorder_->find(destination, elements);
    const std::uint64_t step = recorder_->checker().step_of(recorder_->find(sources[0], elements).access.region);
    std::vector<Access> accesses;
    for (const float* source : sources) accesses.push_back(recorder_->find(source, elements).access);
    target.access.write = true;
    accesses.push_back(target.access);
    recorder_->checker().submit(stream_, {stage_ + "." + what, step, target.replica, target.bucket}, accesses);
  }
  void submit(const std::string& what, const std::vector<MemoryUse>& uses) {
    std::vector<Access> accesses;
    Recorder::Memory named;  // the first one with a name
    for (const MemoryUse& use : uses) {
      const Recorder::Memory memory = recorder_->find(static_cast<const float*>(use.memory), use.bytes / sizeof(float));
      if (named.replica < 0) named = memory;
      accesses.push_back(memory.access);
      accesses.back().write = use.write;
    }
    const std::uint64_t step = recorder_->checker().step_of(named.access.region);
    recorder_->checker().submit(stream_, {stage_ + "." + what, step, named.replica, named.bucket}, accesses);
  }

  std::shared_ptr<Recorder> recorder_;
  std::unique_ptr<Stream> inner_;
  const std::string stage_;
  const int stream_;
  TaskQueue queue_;  // last, since its thread uses the other members
};

class RecordedDevice : public Device {
 public:
  RecordedDevice(std::shared_ptr<Recorder> recorder, std::unique_ptr<Device> inner)
      : recorder_(std::move(recorder)), inner_(std::move(inner)), info_(inner_->info()) {
    info_.backend = "recording";
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    return std::make_unique<RecordedStream>(recorder_, inner_->make_stream(name), name);
  }
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) override { return inner_->host_buffer(bytes); }
  std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string& what) override { return inner_->memory(bytes, what); }
  std::size_t free_memory() override { return inner_->free_memory(); }
  std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) override {
    return std::make_unique<RecordedReplica>(recorder_, inner_->compile(network, options));
  }
  void* native(const std::string& api) override { return inner_->native(api); }

 private:
  std::shared_ptr<Recorder> recorder_;
  std::unique_ptr<Device> inner_;
  DeviceInfo info_;
};

}  // namespace

RecordingBackend::RecordingBackend(std::shared_ptr<Backend> inner, const RecordingOptions& options)
    : inner_(std::move(inner)), recorder_(std::make_shared<Recorder>(options)) {}

std::vector<DeviceInfo> RecordingBackend::devices() {
  std::vector<DeviceInfo> infos = inner_->devices();
  for (DeviceInfo& info : infos) info.backend = "recording";
  return infos;
}

std::unique_ptr<Device> RecordingBackend::open(int index, const DeviceOptions& options) {
  return std::make_unique<RecordedDevice>(recorder_, inner_->open(index, options));
}

std::vector<Violation> RecordingBackend::violations() const { return recorder_->checker().violations(); }

}  // namespace millrace::testkit
