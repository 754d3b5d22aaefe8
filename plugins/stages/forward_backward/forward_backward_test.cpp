#include "forward_backward.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "forward_backward_fixture.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using testkit::Harness;

constexpr int kGradients = 0, kResult = 1;

class WatchedToken : public StepToken {
 public:
  explicit WatchedToken(bool& gone) : gone_(gone) {}

 private:
  void recycle() noexcept override {
    gone_ = true;
    delete this;
  }
  bool& gone_;
};

// Holds its packet's payload.
class WeighedToken : public StepToken {
 public:
  std::vector<double> weights;
};

// A packet for a stage with this many losses of labels.
Packet step_packet(const Ref<Batch>& batch, std::size_t losses = 1) {
  const auto token = make_ref<WeighedToken>();
  double weight = 0;
  for (std::uint32_t slot = 0; slot < batch->count; ++slot) weight += static_cast<double>(batch->weights[slot]);
  token->weights.assign(losses, weight);
  Packet packet = testkit::whole(batch);
  packet.weights = token->weights;
  packet.token = token;
  return packet;
}

Value loss(const char* reduction) {
  return testkit::table({{"loss", testkit::table({{"reduction", Value(std::string(reduction))}})}});
}

// Sum over replicas of the gradient of one parameter.
std::vector<double> gradient(testkit::Replicas& replicas, const Ref<Batch>& batch, const Value& parameters, const char* name,
                             std::size_t losses = 1) {
  std::vector<double> sum;
  for (std::size_t r = 0; r < replicas.replicas.size(); ++r) {
    Harness harness(StageTypeAccess::make<ForwardBackward>(), parameters, replicas.context_of(static_cast<int>(r)));
    harness.feed(step_packet(batch, losses));
    const std::vector<float> part = replicas.replicas[r]->read(kGradient, replicas.network.find_parameter(name));
    sum.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double factor = 1) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], factor * b[i], 1e-5 * factor) << i;
}

TEST(ForwardBackward, SendsAResultAndEveryBucketInOrder) {
  testkit::Replicas replicas(1);
  Harness harness(StageTypeAccess::make<ForwardBackward>(), {}, replicas.context_of(0));
  harness.feed(step_packet(testkit::random_batch(6)));

  const std::vector<Packet> results = harness.take(kResult);
  ASSERT_EQ(results.size(), 1U);
  const auto& result = static_cast<const StepResult&>(*results[0].payload);
  EXPECT_EQ(results[0].sequence, 4U);
  EXPECT_EQ(result.epoch, 1U);
  EXPECT_EQ(result.step, 4U);
  EXPECT_EQ(result.stream_hash, 99U);
  EXPECT_EQ(result.sums.at(0).weight(), 6);
  EXPECT_GT(result.sums.at(0).loss(), 0);

  const std::vector<Packet> buckets = harness.take(kGradients);
  ASSERT_EQ(buckets.size(), 4U);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto& bucket = static_cast<const GradientBucket&>(*buckets[b].payload);
    EXPECT_EQ(buckets[b].replica, 0);
    EXPECT_EQ(bucket.bucket, static_cast<int>(b));
    EXPECT_EQ(bucket.buckets, 4);
    EXPECT_EQ(bucket.step, 4U);
    EXPECT_EQ(bucket.data, replicas.replicas[0]->buckets()[b].gradients);
  }
  EXPECT_EQ(harness.output().holds(), 0);
}

// An event that completes on request.
class LaterEvent : public Event {
 public:
  bool complete() const override { return !done_; }
  void wait() const override {}
  void then(Callback done) override { done_ = std::move(done); }
  void signal() { std::exchange(done_, nullptr)(nullptr); }

 private:
  Callback done_;
};

TEST(DeviceClock, CountsWorkThatOverlapsOnce) {
  DeviceClock clock;
  const auto first = make_ref<LaterEvent>(), second = make_ref<LaterEvent>();
  const std::uint64_t begin = now_ticks();
  clock.watch(first, begin, 30);
  clock.watch(second, begin, 50);  // submitted while the first one is running
  EXPECT_EQ(clock.work().samples, 0U);
  while (static_cast<double>(now_ticks() - begin) * seconds_per_tick() < 0.02) {
  }
  first->signal();
  EXPECT_EQ(clock.work().samples, 30U);
  EXPECT_GE(clock.work().seconds, 0.02);
  second->signal();
  const double in_all = static_cast<double>(now_ticks() - begin) * seconds_per_tick();
  EXPECT_EQ(clock.work().samples, 80U);
  EXPECT_LE(clock.work().seconds, in_all);
}

TEST(ForwardBackward, SaysHowLongTheDeviceWorked) {
  testkit::Replicas replicas(2);
  Harness harness(StageTypeAccess::make<ForwardBackward>(), {}, replicas.context_of(1));
  EXPECT_EQ(harness.stage().device_work().samples, 0U);
  harness.feed(step_packet(testkit::random_batch(7)));
  EXPECT_EQ(harness.stage().device_work().samples, 3U);  // its share
  EXPECT_GT(harness.stage().device_work().seconds, 0);
}

TEST(ForwardBackward, PiecesAddUpToTheWholeShare) {
  const Ref<Batch> batch = testkit::random_batch(7);
  testkit::Replicas whole(2), pieces(2, {}, 3);
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight"}) {
    expect_near(gradient(pieces, batch, testkit::table({{"micro_batches", Value(std::int64_t{3})}}), name),
                gradient(whole, batch, {}, name));
  }
}

TEST(ForwardBackward, PiecesAreMeasuredTogetherAndSentOnce) {
  testkit::Replicas replicas(1, {}, 4);
  Harness harness(StageTypeAccess::make<ForwardBackward>(), testkit::table({{"micro_batches", Value(std::int64_t{4})}}),
                  replicas.context_of(0));
  for (const std::uint32_t samples : {7U, 2U, 0U}) {  // also fewer than pieces
    const Ref<Batch> batch = testkit::random_batch(7);
    batch->count = batch->global_count = samples;
    harness.feed(step_packet(batch));
    const std::vector<Packet> results = harness.take(kResult);
    ASSERT_EQ(results.size(), 1U);
    const auto& result = static_cast<const StepResult&>(*results[0].payload);
    EXPECT_EQ(result.sums.size(), std::max(std::min(samples, 4U), 1U));
    StepSums all;
    for (const StepSums& sums : result.sums) all.add(sums);
    EXPECT_EQ(all.weight(), samples);
    EXPECT_EQ(harness.take(kGradients).size(), 4U);
  }
}

TEST(ForwardBackward, TheTokenLivesAsLongAsTheBuckets) {
  testkit::Replicas replicas(1);
  Harness harness(StageTypeAccess::make<ForwardBackward>(), {}, replicas.context_of(0));
  bool gone = false;
  Packet packet = step_packet(testkit::random_batch(6));
  packet.weights = {};
  packet.token = make_ref<WatchedToken>(gone);
  harness.feed(std::move(packet));
  std::vector<Packet> buckets = harness.take(kGradients);
  EXPECT_FALSE(gone);
  while (buckets.size() > 1) buckets.pop_back();
  EXPECT_FALSE(gone);
  buckets.clear();
  EXPECT_TRUE(gone);
}

TEST(ForwardBackward, ReplicasAddUpToTheWholeBatch) {
  testkit::Replicas one(1);
  const Ref<Batch> batch = testkit::random_batch(7);
  for (const std::vector<double>& load : std::vector<std::vector<double>>{{1, 1, 1}, {1, 2, 0.5}, {0, 1, 1}}) {
    testkit::Replicas three(3, load);
    for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
      expect_near(gradient(three, batch, {}, name), gradient(one, batch, {}, name));
    }
  }
}

TEST(ForwardBackward, MoreReplicasThanSamplesStillAgree) {
  testkit::Replicas one(1), three(3);
  const Ref<Batch> batch = testkit::random_batch(2);
  expect_near(gradient(three, batch, {}, "fc1.weight"), gradient(one, batch, {}, "fc1.weight"));
}

TEST(ForwardBackward, TheSumIsTheMeanTimesTheBatch) {
  testkit::Replicas replicas(1);
  const Ref<Batch> batch = testkit::random_batch(8);
  expect_near(gradient(replicas, batch, loss("sum"), "fc2.weight"), gradient(replicas, batch, loss("mean"), "fc2.weight"), 8);
}

TEST(ForwardBackward, ASampleOfWeightZeroIsAsIfItWereNotThere) {
  testkit::Replicas replicas(1);
  const Ref<Batch> batch = testkit::random_batch(5), shorter = testkit::random_batch(5);
  batch->weights[4] = 0;
  batch->weight = 4;
  shorter->count = shorter->global_count = 4;
  shorter->weight = 4;
  expect_near(gradient(replicas, batch, {}, "fc1.weight"), gradient(replicas, shorter, {}, "fc1.weight"));
}

TEST(ForwardBackward, ABatchOfNothingButBadSamplesHasNoGradient) {
  testkit::Replicas replicas(1);
  const Ref<Batch> batch = testkit::random_batch(3);
  std::fill_n(batch->weights, 3, 0.0F);
  batch->weight = 0;
  for (const double g : gradient(replicas, batch, {}, "fc1.weight")) EXPECT_EQ(g, 0);
}

// A table with losses of the network's result, in addition to the cross-entropy.
Value auxiliary(std::initializer_list<Value> losses) { return testkit::table({{"auxiliary", Value(Array(losses))}}); }

Value smoothed(double weight) {
  const Value loss = testkit::table({{"type", Value(std::string("cross_entropy"))}, {"label_smoothing", Value(0.3)}});
  return testkit::table({{"weight", Value(weight)}, {"loss", loss}});
}

TEST(ForwardBackward, AuxiliaryLossesAreAddedByTheirWeights) {
  const Ref<Batch> batch = testkit::random_batch(7);
  testkit::Replicas two(2);
  const Value only = testkit::table({{"loss", *smoothed(1).find("loss")}});
  for (const char* name : {"fc1.weight", "fc2.bias"}) {
    const std::vector<double> first = gradient(two, batch, {}, name), second = gradient(two, batch, only, name);
    std::vector<double> expected;
    for (std::size_t i = 0; i < first.size(); ++i) expected.push_back(first[i] + 0.25 * second[i] + 0.5 * first[i]);
    const Value same = testkit::table({{"weight", Value(0.5)}});  // the stage's own loss
    expect_near(gradient(two, batch, auxiliary({smoothed(0.25), same}), name, 3), expected);
    expect_near(gradient(two, batch, auxiliary({smoothed(0)}), name, 2), first);
  }
}

TEST(ForwardBackward, AuxiliaryLossesAreMeasuredByName) {
  testkit::Replicas replicas(1, {}, 2);
  Value parameters = auxiliary({smoothed(0.25)});
  parameters.set("micro_batches", Value(std::int64_t{2}));
  Harness harness(StageTypeAccess::make<ForwardBackward>(), parameters, replicas.context_of(0));
  const Ref<Batch> batch = testkit::random_batch(7);
  EXPECT_EQ(harness.stage().weigh(*batch), (std::vector<double>{7, 7}));
  harness.feed(step_packet(batch, 2));
  const std::vector<Packet> results = harness.take(kResult);
  ASSERT_EQ(results.size(), 1U);
  const auto& result = static_cast<const StepResult&>(*results[0].payload);
  ASSERT_EQ(result.auxiliary.size(), 1U);
  EXPECT_EQ(result.auxiliary[0].name, "cross_entropy");
  ASSERT_EQ(result.auxiliary[0].sums.size(), 2U);
  EXPECT_EQ(result.auxiliary[0].sums[0].weight() + result.auxiliary[0].sums[1].weight(), 7);
  EXPECT_NE(result.auxiliary[0].sums[0].loss(), result.sums[0].loss());
}

TEST(ForwardBackward, RefusesOutputsThatAreNone) {
  const testkit::Replicas replicas(1);
  const auto mistake = [&](const char* output) -> std::string {
    const Value entry = testkit::table({{"output", Value(std::string(output))}});
    try {
      Harness harness(StageTypeAccess::make<ForwardBackward>(), auxiliary({entry}), replicas.context_of(0));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return "";
  };
  EXPECT_MESSAGE(mistake("fc3"));
  EXPECT_MESSAGE(mistake("fc1"));
  EXPECT_EQ(mistake("fc2"), "");
}

TEST(ForwardBackward, GradientsAreThoseOfFiniteDifferences) {
  testkit::Replicas replicas(1);
  const testkit::GradientReport report = testkit::check_gradients(
      replicas.network, *replicas.replicas[0], testkit::random_batch(6), {.loss = testkit::cross_entropy(0.2)});
  EXPECT_LT(report.worst(), 1e-2) << report.text();
}

}  // namespace
}  // namespace millrace
