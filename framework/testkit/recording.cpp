#include "testkit/recording.h"

#include <fmt/format.h>

#include <utility>

#include "testkit/recorder.h"

namespace millrace::testkit {

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

std::string gradients_of(int replica, int bucket) { return fmt::format("gradients of bucket {} on replica {}", bucket, replica); }
std::string parameters_of(int replica, int bucket) {
  return fmt::format("parameters of bucket {} on replica {}", bucket, replica);
}

Ref<RecordedEvent> record_on(TaskQueue& queue, Recorder& recorder, Clock clock) {
  auto event = make_ref<RecordedEvent>(recorder.checker(), std::move(clock));
  queue.submit_always([event, &queue] {
    const std::optional<Error> failure = queue.failure();
    event->signal(failure ? &*failure : nullptr);
  });
  return event;
}

void wait_on(TaskQueue& queue, Recorder& recorder, int stream, const Ref<Event>& event) {
  if (!event) return;
  if (const auto* recorded = dynamic_cast<const RecordedEvent*>(event.get())) {
    recorder.checker().wait(stream, recorded->clock());
    queue.submit_always([event, recorded] { recorded->wait_as_device(); });
  } else {
    queue.submit_always([event] { event->wait(); });
  }
}

namespace {

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
    return record_stream(recorder_, inner_->make_stream(name), name);
  }
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) override { return inner_->host_buffer(bytes); }
  std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string& what) override { return inner_->memory(bytes, what); }
  std::size_t free_memory() override { return inner_->free_memory(); }
  std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) override {
    return record_replica(recorder_, inner_->compile(network, options));
  }
  void* native(const std::string& api) override { return inner_->native(api); }

 private:
  std::shared_ptr<Recorder> recorder_;
  std::unique_ptr<Device> inner_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Stream> record_stream(std::shared_ptr<Recorder> recorder, std::unique_ptr<Stream> inner,
                                      const std::string& name) {
  return std::make_unique<RecordedStream>(std::move(recorder), std::move(inner), name);
}

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
