#include "testkit/stages.h"

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "millrace/batch.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"

namespace millrace::testkit {
namespace {

void sleep_for(std::int64_t microseconds) {
  if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

[[noreturn]] void throw_kind(const std::string& kind, const std::string& message) {
  for (const ErrorKind candidate :
       {ErrorKind::usage, ErrorKind::data, ErrorKind::content, ErrorKind::storage, ErrorKind::device}) {
    if (kind == to_string(candidate)) throw Error(candidate, message);
  }
  if (kind == "foreign") throw std::runtime_error(message);
  throw Error(ErrorKind::run, message);
}

constexpr const char* kKinds[] = {"usage", "data", "content", "storage", "device", "run", "foreign"};
std::vector<std::string> kinds() { return {std::begin(kKinds), std::end(kKinds)}; }

}  // namespace

void add_stages(Registry& registry) {
  registry.add_stage<CountingSource>();
  registry.add_stage<Paint>();
  registry.add_stage<CountingBatcher>();
  registry.add_stage<BatchLog>();
  registry.add_stage<Jitter>();
  registry.add_stage<Turnstile>();
  registry.add_stage<Fault>();
}

StageType over(StageType type, std::string_view payload_type) {
  for (Port& port : type.inputs) port.payload = payload_type;
  for (Port& port : type.outputs) port.payload = payload_type;
  return type;
}

void CountingSource::describe(StageDescription<Params>& d) {
  d.name("counting_source").text("Synthetic samples.");
  d.output(payload::kImageChunk);
  d.params.add_table("sampling", &Params::sampling, [](ParamSet<SourceParams>& set) { SourceParams::describe(set); });
  d.params.add("size", &Params::size).range(1).text("samples");
  d.params.add("classes", &Params::classes).range(1).text("labels");
  d.params.add("bad_every", &Params::bad_every).range(0).text("multiples of this are bad");
  d.params.add("fails_at", &Params::fails_at).text("index at which reading fails");
  d.params.add("failure", &Params::failure).choices(kinds()).text("kind of that failure");
  d.params.add("sleep_microseconds", &Params::sleep_microseconds).range(0).text("in each read");
}

void CountingSource::read(Sample& sample) {
  const auto index = static_cast<std::int64_t>(sample.key.index);
  sleep_for(params_.sleep_microseconds);
  sample.url = "sample/" + std::to_string(index);
  if (index == params_.fails_at) throw_kind(params_.failure, "cannot be read");
  if (params_.bad_every > 0 && index > 0 && index % params_.bad_every == 0) fail(ErrorKind::content, "is broken");
  const std::uint64_t bytes = mix64(sample.key.index);
  std::memcpy(sample.encoded.resize(sizeof bytes), &bytes, sizeof bytes);
  sample.label = static_cast<std::int32_t>(index % params_.classes);
}

void Paint::describe(StageDescription<Params>& d) {
  d.name("paint").text("Paints an image from a sample's bytes.");
  d.params.add("size", &Params::size).text("height and width");
  d.params.add("bad", &Params::bad).range(0, 1).text("chance of a bad sample");
}

ImageShape Paint::image_shape() const {
  return {static_cast<std::int32_t>(params_.size.height), static_cast<std::int32_t>(params_.size.width), 3};
}

void Paint::process(Sample& sample, Draw& draw) {
  if (draw.chance(params_.bad)) fail(ErrorKind::content, "cannot be painted");
  const Image image = sample.new_image(image_shape());
  const std::uint64_t colour = combine(hash_bytes(sample.encoded.data(), sample.encoded.size()), draw.bits());
  for (std::size_t i = 0; i < image.shape.bytes(); ++i) image.data[i] = static_cast<std::uint8_t>(colour >> (8 * (i % 8)));
  sample.set_image(image);
}

void CountingBatcher::describe(StageDescription<Params>& d) {
  d.name("counting_batcher").text("Counts samples into batches.");
  d.input(payload::kImageChunk).output(payload::kBatch).output(payload::kSampleChunk, "retry");
  d.params.add("size", &Params::size).range(1).text("samples in a batch");
  d.params.add("buffers", &Params::buffers).range(1).text("circulating batches");
  d.params.add("keep_last", &Params::keep_last).text("use the incomplete last batch");
  d.params.add("wrap", &Params::wrap).text("fill the last batch up with the first samples");
  d.params.add("replace", &Params::replace).text("replace bad samples");
}

BatchSpec CountingBatcher::spec() const {
  return {static_cast<std::uint32_t>(params_.size), static_cast<std::uint32_t>(params_.buffers),
          params_.wrap        ? BatchSpec::Last::wrap
          : params_.keep_last ? BatchSpec::Last::keep
                              : BatchSpec::Last::drop};
}

void CountingBatcher::process(int, Packet packet, Output& output) {
  constexpr std::uint32_t kMaxAttempts = 20;
  Batch& batch = static_cast<Batch&>(*packet.payload);
  std::uint32_t arrived = 0;
  for (std::uint32_t slot = packet.begin; slot < packet.begin + packet.count; ++slot) {
    const Sample& sample = batch.samples[slot];
    if (sample.fault && params_.replace) {
      if (sample.key.attempt == kMaxAttempts) fail(ErrorKind::data, "no good sample in {} attempts", kMaxAttempts);
      if (site_.run) site_.run->bad_sample(site_.graph, sample, "replaced");
      Packet again = packet;
      again.begin = slot;
      again.count = 1;
      output.emit(1, std::move(again));
      continue;
    }
    if (sample.fault && site_.run) site_.run->bad_sample(site_.graph, sample, "skipped");
    batch.records[slot] = sample.record;
    if (batch.source_maps) batch.source_maps[slot] = sample.source_map();
    batch.labels[slot] = sample.fault ? -1 : sample.label;
    batch.weights[slot] = sample.fault ? 0.0F : 1.0F;
    ++arrived;
  }
  const bool is_last = arrived > 0 && batch.missing.fetch_sub(arrived) == arrived;
  if (!is_last && batch.count > 0) return;
  batch.weight = 0;
  batch.stream_hash = 0;
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    batch.weight += static_cast<double>(batch.weights[slot]);
    batch.stream_hash += batch.samples[slot].hash;
  }
  packet.begin = 0;
  packet.count = batch.count;
  output.emit(0, std::move(packet));
}

void BatchLog::describe(StageDescription<Params>& d) {
  d.name("batch_log").text("Notes each batch.");
  d.input(payload::kBatch).serial().stepwise();
  d.params.add("sleep_microseconds", &Params::sleep_microseconds).range(0).text("for each batch");
}

void BatchLog::process(int, Packet packet, Output& output) {
  const Batch& batch = static_cast<const Batch&>(*packet.payload);
  sleep_for(params_.sleep_microseconds);
  Entry entry{batch.step, batch.epoch, batch.stream_hash, 0, batch.count, batch.weight, {}, static_cast<bool>(packet.token)};
  entry.pixel_hash = hash_bytes(batch.pixels, batch.count * batch.image.bytes());
  for (const Sample& sample : batch.samples.first(batch.count)) entry.indices.push_back(sample.key.index);
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  if (on_batch) on_batch(packet, output);
}

std::vector<BatchLog::Entry> BatchLog::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

void Jitter::describe(StageDescription<Params>& d) {
  d.name("jitter").text("Delays packets at random.");
  d.input(payload::kImageChunk).output(payload::kImageChunk);
  d.params.add("most_microseconds", &Params::most_microseconds).range(0).text("longest delay");
}

void Jitter::process(int, Packet packet, Output& output) {
  const std::uint64_t random = combine(seed_, packets_++);
  if (random % 4 == 0) sleep_for(static_cast<std::int64_t>(random / 4) % (params_.most_microseconds + 1));
  if (random % 4 == 1) std::this_thread::yield();
  output.emit(0, std::move(packet));
}

void Turnstile::describe(StageDescription<Params>& d) {
  d.name("turnstile").text("Keeps packets until they are released.");
  d.input(payload::kImageChunk).output(payload::kImageChunk);
}

void Turnstile::process(int, Packet packet, Output& output) {
  {
    const std::lock_guard lock(mutex_);
    if (!open_) {
      kept_.push_back({std::move(packet), &output, output.hold()});
      arrived_.notify_all();
      return;
    }
  }
  output.emit(0, std::move(packet));
}

std::size_t Turnstile::wait_for(std::size_t packets) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return kept_.size() >= packets; });
  return kept_.size();
}

void Turnstile::release(std::size_t packets) {
  for (; packets > 0; --packets) {
    std::unique_lock lock(mutex_);
    if (kept_.empty()) return;
    Kept oldest = std::move(kept_.front());
    kept_.pop_front();
    lock.unlock();
    oldest.output->emit(0, std::move(oldest.packet));
  }
}

void Turnstile::let_all_pass() {
  std::size_t kept = 0;
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
    kept = kept_.size();
  }
  release(kept);
}

void Turnstile::stop() noexcept {
  std::deque<Kept> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(kept_);
}

void Fault::describe(StageDescription<Params>& d) {
  d.name("fault").text("Throws.");
  d.input(payload::kImageChunk).output(payload::kImageChunk);
  d.params.add("at", &Params::at).text("packet that fails");
  d.params.add("chance", &Params::chance).range(0, 1).text("of failing, for each packet");
  d.params.add("kind", &Params::kind).choices(kinds()).text("of the error");
}

void Fault::process(int, Packet packet, Output& output) {
  const std::int64_t number = packets_++;
  if (number == params_.at) throw_kind(params_.kind, "planted at packet " + std::to_string(number));
  Draw draw(seed_, {0, static_cast<std::uint64_t>(number), 0, 0}, hash_text("fault"));
  if (draw.chance(params_.chance)) throw_kind(params_.kind, "planted by chance at packet " + std::to_string(number));
  output.emit(0, std::move(packet));
}

}  // namespace millrace::testkit
