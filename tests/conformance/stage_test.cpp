// What every stage has to do: be made, stop in any state, and give the same results whatever the threads do.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "synthetic.h"

namespace millrace::conformance {
namespace {

constexpr unsigned kThreads = 4;

// Runs `work(thread)` on all threads at once; what one throws fails the test.
void on_threads(const std::function<void(unsigned)>& work) {
  std::vector<std::thread> threads;
  std::vector<std::string> failures(kThreads);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        work(thread);
      } catch (const std::exception& error) {
        failures[thread] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

// A short random pause, other ones for each thread.
class Jitter {
 public:
  explicit Jitter(unsigned thread) : generator_(thread + 1) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(generator_()) % bound; }
  void pause() { std::this_thread::sleep_for(std::chrono::microseconds(below(3) == 0 ? below(300) : 0)); }

 private:
  std::mt19937 generator_;
};

// The chunks of a batch, of 1 to 3 samples, dealt out to threads that are not in step.
void feed_in_disorder(testkit::Harness& harness, const Ref<Batch>& batch) {
  std::vector<std::vector<Packet>> hands(kThreads);
  Jitter sizes(99);
  for (std::uint32_t begin = 0; begin < batch->count;) {
    const std::uint32_t count = std::min(1 + sizes.below(3), batch->count - begin);
    hands[sizes.below(kThreads)].push_back(testkit::chunk(batch, begin, count));
    begin += count;
  }
  on_threads([&](unsigned thread) {
    Jitter jitter(thread);
    while (!hands[thread].empty()) {
      jitter.pause();
      Packet packet = std::move(hands[thread].back());
      hands[thread].pop_back();
      harness.feed(std::move(packet));
    }
  });
}

class EveryStage : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    bench_.emplace(is_step_stage());
    std::string why;
    table_ = workable_table(type(), bench_->context(), why);
    if (!table_) GTEST_SKIP() << "no plausible parameters are accepted: " << why;
  }

  const StageType& type() const { return *registry().stage(GetParam()); }
  bool is_step_stage() const { return type().role == StageType::Role::stage; }
  std::string_view input() const {
    return type().inputs.empty() ? std::string_view() : std::string_view(type().inputs.front().payload);
  }

  std::optional<Bench> bench_;
  std::optional<Value> table_;
};

class EverySource : public EveryStage {};
class EverySampleTransform : public EveryStage {};
class EveryBatcher : public EveryStage {};

TEST_P(EveryStage, StopsTwiceWithoutHavingBeenOpened) {
  testkit::Harness unopened(type(), *table_, bench_->context());
  unopened.stage().stop();
  unopened.stage().stop();
}

TEST_P(EveryStage, OpensAndStopsTwice) {
  testkit::Harness opened(type(), *table_, bench_->context());
  opened.stage().open();
  opened.stage().stop();
  opened.stage().stop();
}

TEST_P(EveryStage, IsMadeOnManyThreadsAtOnce) {
  on_threads([&](unsigned thread) {
    const Bench own(is_step_stage());  // a replica has one optimizer
    Jitter jitter(thread);
    for (int i = 0; i < 8; ++i) {
      testkit::Harness made(type(), *table_, own.context());
      jitter.pause();
      made.stage().open();
      made.stage().stop();
    }
  });
}

TEST_P(EveryStage, RefusesAWrongTableWithoutBeingMade) {
  Value wrong = *table_;
  wrong.set("no_such_key_at_all", Value(true));
  Diagnostics errors;
  StageContext context = bench_->context();
  context.name = "instance";
  EXPECT_EQ(type().create(wrong, context, errors), nullptr);
  EXPECT_NE(errors.text().find("[test.instance] has no key 'no_such_key_at_all'"), std::string::npos) << errors.text();
}

// What is left of a sample when a stage is through with it.
struct Outcome {
  std::vector<std::uint8_t> pixels;
  ImageShape shape;
  std::vector<std::uint8_t> seen;  // by the network, where the record is still to be executed
  std::uint64_t hash = 0;
  SourceMap source;
  std::string fault;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome(const Sample& sample) {
  Outcome left;
  const ImageView image = sample.image();
  left.shape = image.shape;
  if (image.data) left.pixels.assign(image.data, image.data + image.shape.bytes());
  if (image.data) left.seen.resize(image.shape.bytes());
  if (image.data) apply_record(sample.record, image, image.shape, left.seen.data());
  left.hash = sample.hash;
  left.source = sample.source_map();
  if (sample.fault) left.fault = sample.fault->cause;
  return left;
}

TEST_P(EverySampleTransform, GivesTheSameSamplesWhateverTheThreadsDo) {
  testkit::Harness serial(type(), *table_, bench_->context()), parallel(type(), *table_, bench_->context());
  serial.stage().open();
  parallel.stage().open();
  const Ref<Batch> expected = filled_batch(input(), kSamples), found = filled_batch(input(), kSamples);
  serial.feed(testkit::whole(expected));
  feed_in_disorder(parallel, found);
  std::uint32_t sent = 0;
  for (const Packet& packet : parallel.take()) sent += packet.count;
  EXPECT_EQ(sent, kSamples);
  for (std::uint32_t slot = 0; slot < kSamples; ++slot) {
    EXPECT_EQ(outcome(expected->samples[slot]).fault, "");
    EXPECT_TRUE(outcome(expected->samples[slot]) == outcome(found->samples[slot])) << "slot " << slot;
  }
}

TEST_P(EverySampleTransform, LeavesBadSamplesAlone) {
  testkit::Harness made(type(), *table_, bench_->context());
  made.stage().open();
  const Ref<Batch> batch = filled_batch(input(), 2);
  batch->samples[0].fault = SampleFault{"read", "it was bad before"};
  const Outcome before = outcome(batch->samples[0]);
  made.feed(testkit::whole(batch));
  EXPECT_EQ(made.take().size(), 1U);
  EXPECT_TRUE(outcome(batch->samples[0]) == before);
}

TEST_P(EveryBatcher, CountsEverySampleIntoOneBatch) {
  testkit::Harness made(type(), *table_, bench_->context());
  const BatchSpec spec = made.as<Batcher>().spec();
  ASSERT_GT(spec.size, 0U);
  EXPECT_GE(spec.buffers, 1U);
  made.stage().open();
  for (int step = 0; step < 8; ++step) {
    const Ref<Batch> batch = filled_batch(input(), spec.size);
    feed_in_disorder(made, batch);
    std::vector<Packet> sent = made.take();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].payload.get(), batch.get());
    EXPECT_EQ(batch->missing, 0U);
    EXPECT_EQ(batch->weight, spec.size);
  }
}

struct Read {
  std::string url;
  std::vector<std::uint8_t> bytes;
  std::int32_t label = -1;
  bool operator==(const Read&) const = default;
};

Read read_one(Source& source, std::uint64_t index) {
  std::uint8_t pixels[kImage.bytes()] = {};
  Sample sample;
  sample.reset({0, index, index, 0}, {pixels, kImage});
  source.read(sample);
  return {sample.url, {sample.encoded.data(), sample.encoded.data() + sample.encoded.size()}, sample.label};
}

TEST_P(EverySource, ReadsTheSameSamplesWhateverTheThreadsDo) {
  testkit::Harness made(type(), *table_, bench_->context());
  Source& source = made.as<Source>();
  source.open();
  const std::uint64_t size = source.size();
  ASSERT_GT(size, 0U);
  std::vector<Read> expected;
  for (std::uint64_t index = 0; index < size; ++index) {
    expected.push_back(read_one(source, index));
    EXPECT_FALSE(expected.back().url.empty());
    EXPECT_FALSE(expected.back().bytes.empty());
    EXPECT_LE(expected.back().bytes.size(), source.largest_encoded());
    if (source.classes().empty() || source.target()) continue;
    EXPECT_GE(expected.back().label, 0);
    EXPECT_LT(static_cast<std::size_t>(expected.back().label), source.classes().size());
  }
  on_threads([&](unsigned thread) {
    Jitter jitter(thread);
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t index = jitter.below(static_cast<std::uint32_t>(size));
      if (read_one(source, index) != expected[index]) fail(ErrorKind::run, "sample {} was read differently", index);
      jitter.pause();
    }
  });
}

using Role = StageType::Role;
INSTANTIATE_TEST_SUITE_P(Discovered, EveryStage, testing::ValuesIn(stage_names()), by_name);
INSTANTIATE_TEST_SUITE_P(Discovered, EverySource, testing::ValuesIn(stage_names(Role::source)), by_name);
INSTANTIATE_TEST_SUITE_P(Discovered, EverySampleTransform, testing::ValuesIn(stage_names(Role::sample_transform)), by_name);
INSTANTIATE_TEST_SUITE_P(Discovered, EveryBatcher, testing::ValuesIn(stage_names(Role::batcher)), by_name);

}  // namespace
}  // namespace millrace::conformance
