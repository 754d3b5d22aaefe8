// Requirements of stages for samples: results independent of threads, work only on the given sample and inside its slot, and no
// memory leaks.
#include <malloc.h>

#include <algorithm>
#include <cmath>

#include "graph/guard.h"
#include "millrace/error.h"
#include "millrace/util/batcher.h"
#include "testkit/conformance_stage.h"

namespace millrace::conformance {

using Role = StageType::Role;

Outcome outcome(const Sample& sample) {
  Outcome left;
  const ImageView image = sample.image();
  left.shape = image.shape;
  if (image.data) left.pixels.assign(image.data, image.data + image.shape.bytes());
  if (image.data && image.shape.is_plain()) {
    left.seen.resize(image.shape.bytes());
    apply_record(sample.record, image, image.shape, left.seen.data());
  }
  left.hash = sample.hash;
  left.source = sample.source_map();
  if (sample.fault) left.fault = sample.fault->cause;
  left.label = sample.label;
  left.numbers = sample.numbers;
  return left;
}

Read read_one(Source& source, std::uint64_t index) {
  std::uint8_t pixels[kImage.bytes()] = {};
  Sample sample;
  sample.reset({0, index, index, 0}, {pixels, kImage});
  source.read(sample);
  if (sample.encoded.size() > 0) {
    return {sample.url, true, {sample.encoded.data(), sample.encoded.data() + sample.encoded.size()}, sample.label};
  }
  const ImageView image = sample.image();
  return {sample.url, false, {image.data, image.data + image.shape.bytes()}, sample.label};
}

void feed_in_disorder(testkit::Harness& harness, const Ref<Batch>& batch, Report& report) {
  std::vector<std::vector<Packet>> hands(kThreads);
  Jitter sizes(99);
  for (std::uint32_t begin = 0; begin < batch->count;) {
    const std::uint32_t count = std::min(1 + sizes.below(3), batch->count - begin);
    hands[sizes.below(kThreads)].push_back(testkit::chunk(batch, begin, count));
    begin += count;
  }
  const auto feed = [&](unsigned thread) {
    Jitter jitter(thread);
    while (!hands[thread].empty()) {
      jitter.pause();
      Packet packet = std::move(hands[thread].back());
      hands[thread].pop_back();
      harness.feed(std::move(packet));
    }
  };
  on_threads(feed, report);
}

namespace {

// Describes the slots that differ.
void expect_same(const Batch& expected, const Batch& found, const char* when, Report& report) {
  for (std::uint32_t slot = 0; slot < expected.count; ++slot) {
    const Outcome before = outcome(expected.samples[slot]), after = outcome(found.samples[slot]);
    report.expect(before.fault.empty(), fmt::format("a sample became a bad one: {}", before.fault));
    report.expect(before == after, fmt::format("a sample comes out differently {}", when));
  }
}

std::vector<Read> read_all(Source& source) {
  std::vector<Read> all;
  for (std::uint64_t index = 0; index < source.size(); ++index) all.push_back(read_one(source, index));
  return all;
}

void same_samples_of_source(const Workable& stage, Report& report) {
  testkit::Harness first = stage.harness(), second = stage.harness();
  first.stage().open();
  second.stage().open();
  const std::vector<Read> expected = read_all(first.as<Source>());
  report.expect(!expected.empty(), "it has no sample");
  report.expect(read_all(second.as<Source>()) == expected, "a second one of the same table lists or reads other samples");
  report.expect(read_all(first.as<Source>()) == expected, "it reads other samples the second time");
}

void determinism(const Workable& stage, Report& report) {
  if (stage.type().role == Role::source) return same_samples_of_source(stage, report);
  testkit::Harness first = stage.harness(), second = stage.harness();
  first.stage().open();
  second.stage().open();
  const Ref<Batch> expected = filled_batch(stage.input(), kSamples, stage.image()),
                   found = filled_batch(stage.input(), kSamples, stage.image());
  first.feed(testkit::whole(expected));
  second.feed(testkit::whole(found));
  expect_same(*expected, *found, "the second time, with the same seed and key", report);
}

void samples_of_source_on_threads(const Workable& stage, Report& report) {
  testkit::Harness made = stage.harness();
  Source& source = made.as<Source>();
  source.open();
  if (source.size() == 0) return report.add("it has no sample");
  const bool gives_images = stage.type().outputs.front().payload == payload::kImageChunk;
  std::vector<Read> expected;
  for (std::uint64_t index = 0; index < source.size(); ++index) {
    const Read& read = expected.emplace_back(read_one(source, index));
    report.expect(!read.url.empty(), "a sample has no url");
    report.expect(!read.bytes.empty() && (read.is_encoded || gives_images), "a sample has no bytes");
    report.expect(!read.is_encoded || read.bytes.size() <= source.largest_encoded(), "a sample is larger than largest_encoded()");
    const auto classes = static_cast<std::int64_t>(source.classes().size());
    if (classes == 0 || source.target()) continue;
    report.expect(read.label >= 0 && read.label < classes, fmt::format("the label {} of a sample is no class", read.label));
  }
  const auto read_again = [&](unsigned thread) {
    Jitter jitter(thread);
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t index = jitter.below(static_cast<std::uint32_t>(source.size()));
      if (read_one(source, index) != expected[index]) fail(ErrorKind::run, "sample {} was read differently", index);
      jitter.pause();
    }
  };
  on_threads(read_again, report);
}

void thread_safety(const Workable& stage, Report& report) {
  if (stage.type().role == Role::source) return samples_of_source_on_threads(stage, report);
  testkit::Harness serial = stage.harness(), parallel = stage.harness();
  serial.stage().open();
  parallel.stage().open();
  const Ref<Batch> expected = filled_batch(stage.input(), kSamples, stage.image()),
                   found = filled_batch(stage.input(), kSamples, stage.image());
  serial.feed(testkit::whole(expected));
  feed_in_disorder(parallel, found, report);
  std::uint32_t sent = 0;
  for (const Packet& packet : parallel.take()) sent += packet.count;
  report.expect(sent == kSamples, fmt::format("of {} samples it sent {} on", kSamples, sent));
  expect_same(*expected, *found, "on several threads", report);
}

// A finished sample does not change.
void own_sample(const Workable& stage, Report& report) {
  testkit::Harness made = stage.harness();
  made.stage().open();
  const Ref<Batch> batch = filled_batch(stage.input(), kSamples, stage.image());
  std::vector<Outcome> left;
  for (std::uint32_t slot = 0; slot < kSamples; ++slot) {
    made.feed(testkit::chunk(batch, slot, 1));
    left.push_back(outcome(batch->samples[slot]));
  }
  for (std::uint32_t slot = 0; slot < kSamples; ++slot) {
    report.expect(outcome(batch->samples[slot]) == left[slot], "a sample changed after it was sent on");
  }
}

void results(const Workable& stage, Report& report) {
  testkit::Harness made = stage.harness();
  made.stage().open();
  const Ref<Batch> batch = filled_batch(stage.input(), kSamples, stage.image());
  made.feed(testkit::whole(batch));
  const ImageShape announced = made.stage().image_shape();
  for (const Sample& sample : batch->samples) {
    const ImageView image = sample.image();
    if (announced.is_static() && image.data != nullptr) {
      report.expect(image.shape == announced,
                    fmt::format("an image is {}, and image_shape() announces {}", to_string(image.shape), to_string(announced)));
    }
    report.expect(sample.label >= -1 && sample.label < 2,
                  fmt::format("a sample got the label {}, and there are 2 classes", sample.label));
    const bool finite = std::all_of(sample.numbers.begin(), sample.numbers.end(), [](float x) { return std::isfinite(x); });
    report.expect(finite && std::isfinite(sample.noise), "a sample got a number that is not finite");
  }
}

// The image of every second sample lies in the batch's slot, the others outside, so that new_image() returns the slot.
void slots(const Workable& stage, Report& report) {
  testkit::Harness made = stage.harness();
  made.stage().open();
  const ImageShape shape = stage.image();
  const Ref<Batch> batch = filled_batch(stage.input(), kSamples, stage.image());
  flow::GuardedMemory inside(kSamples, shape.bytes()), outside(kSamples, shape.bytes());
  for (std::uint32_t slot = 0; slot < kSamples; ++slot) {
    batch->samples[slot].reset({0, slot, slot, 0}, {inside.piece(slot), shape});
    fill_sample(batch->samples[slot], slot, stage.input(), shape);
    const ImageView image = batch->samples[slot].image();
    if (slot % 2 == 0 || image.data == nullptr) continue;
    std::copy_n(image.data, shape.bytes(), outside.piece(slot));
    batch->samples[slot].set_image(Image{outside.piece(slot), shape}, SourceMap{shape.height, shape.width, {}});
  }
  made.feed(testkit::whole(batch));
  for (std::uint32_t slot = 0; slot < kSamples; ++slot) {
    for (const flow::GuardedMemory& memory : {inside, outside}) {
      const std::string damage = memory.damage(slot);
      report.expect(damage.empty(), fmt::format("it wrote outside the slot of its image ({}): {}", to_string(shape), damage));
    }
  }
}

void bad_samples(const Workable& stage, Report& report) {
  testkit::Harness made = stage.harness();
  made.stage().open();
  const Ref<Batch> batch = filled_batch(stage.input(), 2, stage.image());
  batch->samples[0].fault = SampleFault{"read", "it was bad before"};
  const Outcome before = outcome(batch->samples[0]);
  made.feed(testkit::whole(batch));
  report.expect(made.take().size() == 1, "it does not send on what holds a bad sample");
  report.expect(outcome(batch->samples[0]) == before, "it changes a sample that is bad already");
}

void batches(const Workable& stage, Report& report) {
  testkit::Harness made = stage.harness();
  const BatchSpec spec = made.as<Batcher>().spec();
  report.expect(spec.buffers >= 1, "no batch circulates");
  if (spec.size == 0) return report.add("its batches have no size");
  made.stage().open();
  for (int step = 0; step < 8; ++step) {
    const Ref<Batch> batch = filled_batch(stage.input(), spec.size, stage.image());
    feed_in_disorder(made, batch, report);
    const std::vector<Packet> sent = made.take();
    report.expect(sent.size() == 1 && sent[0].payload.get() == batch.get(), "it does not send each batch once");
    report.expect(batch->missing == 0, "samples of a batch are missing");
    report.expect(batch->weight == spec.size, "a batch does not weigh as much as it has samples");
  }
}

// The run ends in the middle of a batch.
void cancellation(const Workable& stage, Report&) {
  if (stage.type().role == Role::source) {
    testkit::Harness source = stage.harness();
    source.stage().open();
    if (source.as<Source>().size() > 0) read_one(source.as<Source>(), 0);
    return source.stage().stop();
  }
  testkit::Harness made = stage.harness();
  made.stage().open();
  const Ref<Batch> batch = filled_batch(stage.input(), kSamples, stage.image());
  made.feed(testkit::chunk(batch, 0, kSamples / 2));
  made.stage().stop();
}

std::size_t live_bytes() {
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// Live heap bytes before, in the middle of, and after many rounds: growing twice beyond noise is a leak.
void expect_flat(const std::function<void()>& round, std::size_t samples, Report& report) {
  constexpr int kWarmUp = 4, kRounds = 50;
  constexpr std::size_t kNoise = std::size_t{16} << 10;
  std::size_t bytes[3] = {};
  for (int i = 0; i < kWarmUp; ++i) round();
  for (std::size_t& mark : bytes) {
    for (int i = 0; i < kRounds; ++i) round();
    mark = live_bytes();
  }
  if (bytes[1] <= bytes[0] + kNoise || bytes[2] <= bytes[1] + kNoise) return;
  report.add(fmt::format("it keeps about {} bytes for each sample", (bytes[2] - bytes[0]) / (2 * kRounds * samples)));
}

void leaks(const Workable& stage, Report& report) {
  if (stage.type().role == Role::source) {
    testkit::Harness source = stage.harness();
    source.stage().open();
    const std::uint64_t size = std::min<std::uint64_t>(source.as<Source>().size(), kSamples);
    const auto read_some = [&] {
      for (std::uint64_t index = 0; index < size; ++index) read_one(source.as<Source>(), index);
    };
    return expect_flat(read_some, std::max<std::size_t>(size, 1), report);
  }
  testkit::Harness made = stage.harness();
  made.stage().open();
  const auto feed = [&] {
    made.feed(testkit::whole(filled_batch(stage.input(), kSamples, stage.image())));
    made.take();
  };
  expect_flat(feed, kSamples, report);
}

constexpr Check kSampleChecks[] = {
    {"stage", "determinism", of_each_example<determinism, Role::source, Role::sample_transform>},
    {"stage", "thread safety", of_each_example<thread_safety, Role::source, Role::sample_transform>},
    {"stage", "own sample", of_each_example<own_sample, Role::sample_transform>},
    {"stage", "results", of_each_example<results, Role::sample_transform>},
    {"stage", "slots", of_each_example<slots, Role::sample_transform>},
    {"stage", "bad samples", of_each_example<bad_samples, Role::sample_transform>},
    {"stage", "batches", of_each_example<batches, Role::batcher>},
    {"stage", "cancellation", of_each_example<cancellation, Role::source, Role::sample_transform>},
    {"stage", "leaks", of_each_example<leaks, Role::source, Role::sample_transform>}};

}  // namespace

std::span<const Check> sample_checks() { return kSampleChecks; }

}  // namespace millrace::conformance
