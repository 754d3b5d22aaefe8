// Requirements of every backend: it lists its devices or the reason for having none, and trains a small network for a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "discovered.h"
#include "millrace/kernels/host_element.h"
#include "millrace/kernels/loss_elements.h"
#include "testkit/losses.h"
#include "testkit/optimizers.h"
#include "testkit/plain.h"

namespace millrace::conformance {
namespace {

constexpr std::uint32_t kBatch = 4;

class EveryBackend : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = with_simulation().backends().find(GetParam())->create();
    if (backend_->devices().empty()) GTEST_SKIP() << "no device: " << backend_->unavailable_reason();
    device_ = backend_->open(0, {});
    network_ = testkit::small_network(kImage, 6, 3);
  }

  std::unique_ptr<Replica> started_replica(Device& device) const {
    CompileOptions options;
    options.train_batch = options.infer_batch = kBatch;
    options.request.update = testkit::sgd(network_);
    options.request.copies = {"average"};
    options.request.micro_batches = 3;
    std::unique_ptr<Replica> replica = device.compile(network_, options);
    EXPECT_GT(replica->memory_plan().total(), 0U);
    replica->start();
    for (std::size_t i = 0; i < network_.parameters.size(); ++i) {
      Parameter parameter = network_.parameters[i];
      parameter.initialiser = {"uniform", 0.1};
      replica->write(kValue, static_cast<int>(i), initial_values(parameter, 5));
    }
    return replica;
  }

  // One training step; returns the loss summed over the batch.
  double step(Replica& replica, std::uint64_t number, const Ref<Batch>& batch) const {
    StepSums sums;
    replica.ingest(batch, 0, batch->count);
    replica.forward(number);
    const Ref<Event> measured = replica.loss(testkit::cross_entropy(), batch->weight, sums);
    std::mutex mutex;
    std::vector<std::pair<int, Ref<Event>>> filled;
    replica.backward([&](int bucket, Ref<Event> event) {
      const std::lock_guard lock(mutex);
      filled.emplace_back(bucket, std::move(event));
    });
    replica.finish();
    EXPECT_EQ(filled.size(), replica.buckets().size());
    for (std::size_t i = 0; i < filled.size(); ++i) EXPECT_EQ(filled[i].first, static_cast<int>(i));
    UpdateStep update;
    update.step = number;
    update.learning_rate = 0.05;
    for (const auto& [bucket, event] : filled) replica.update(bucket, update, event);
    replica.finish();
    EXPECT_TRUE(!measured || measured->complete());
    EXPECT_EQ(sums.weight(), batch->weight);
    return sums.loss();
  }

  Ref<Batch> batch() const {
    Ref<Batch> made = filled_batch(payload::kImageChunk, kBatch);
    for (std::uint32_t slot = 0; slot < kBatch; ++slot) made->labels[slot] = static_cast<std::int32_t>(slot % 3);
    return made;
  }

  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Device> device_;
  Network network_;
};

TEST_P(EveryBackend, SaysWhatItsDevicesAre) { expect_passes("backend", "description", GetParam()); }
TEST_P(EveryBackend, NamesWhatItCannotDo) { expect_passes("backend", "refusals", GetParam()); }
TEST_P(EveryBackend, ComputesWhatPlainLoopsDo) { expect_passes("backend", "logits", GetParam()); }
TEST_P(EveryBackend, TrainsAsPlainLoopsDo) { expect_passes("backend", "training", GetParam()); }
TEST_P(EveryBackend, GoesOnFromTheStatesOfAnother) { expect_passes("backend", "state", GetParam()); }
TEST_P(EveryBackend, MayBeDroppedInTheMiddleOfAStep) { expect_passes("backend", "cancellation", GetParam()); }

TEST_P(EveryBackend, LearnsABatchByHeart) {
  const std::unique_ptr<Replica> replica = started_replica(*device_);
  const Ref<Batch> same = batch();
  const double first = step(*replica, 0, same);
  double last = first;
  for (std::uint64_t number = 1; number < 40; ++number) last = step(*replica, number, same);
  EXPECT_TRUE(std::isfinite(first));
  EXPECT_LT(last, 0.5 * first);
  EXPECT_EQ(same->in_flight, 0U);
}

TEST_P(EveryBackend, MeasuresWhatItWouldTrainOn) {
  const std::unique_ptr<Replica> replica = started_replica(*device_);
  StepSums sums;
  const View plain;
  replica->infer(batch(), 0, kBatch, std::span(&plain, 1), testkit::cross_entropy(), sums);
  replica->finish();
  EXPECT_EQ(sums.weight(), kBatch);
  EXPECT_GT(sums.loss(), 0);
  EXPECT_EQ(replica->logits().size(), kBatch * 3U);
}

TEST_P(EveryBackend, TakesPartWithoutSamples) {
  const std::unique_ptr<Replica> replica = started_replica(*device_);
  StepSums sums;
  replica->ingest(batch(), 0, 0);
  replica->forward(0);
  replica->loss(testkit::cross_entropy(), kBatch, sums);
  replica->backward([](int, const Ref<Event>&) {});
  replica->finish();
  EXPECT_EQ(sums.weight(), 0);
  for (std::size_t i = 0; i < network_.parameters.size(); ++i) {
    for (const float value : replica->read(kGradient, static_cast<int>(i))) ASSERT_EQ(value, 0) << network_.parameters[i].name;
  }
}

TEST_P(EveryBackend, FinishesTwiceAndWithoutWork) {
  const std::unique_ptr<Replica> replica = started_replica(*device_);
  replica->finish();
  replica->finish();
}

TEST_P(EveryBackend, HoldsSeveralReplicas) {
  const std::unique_ptr<Replica> first = started_replica(*device_), second = started_replica(*device_);
  EXPECT_EQ(step(*first, 0, batch()), step(*second, 0, batch()));
  for (std::size_t i = 0; i < network_.parameters.size(); ++i) {
    EXPECT_EQ(first->read(kValue, static_cast<int>(i)), second->read(kValue, static_cast<int>(i)));
  }
}

TEST_P(EveryBackend, AddsUpOnAStream) {
  const std::unique_ptr<Stream> stream = device_->make_stream("sum");
  const std::unique_ptr<Replica> replica = started_replica(*device_);
  const Bucket& bucket = replica->buckets().front();
  const Ref<Batch> same = batch();
  step(*replica, 0, same);
  const int parameter = bucket.parameters.front();
  const std::vector<float> before = replica->read(kGradient, parameter);
  const float* const sources[] = {bucket.gradients, bucket.gradients};
  stream->sum(bucket.gradients, sources, bucket.elements);
  const Ref<Event> done = stream->record();
  if (done) done->wait();
  const std::vector<float> after = replica->read(kGradient, parameter);
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(after[i], 2 * before[i]);
}

TEST_P(EveryBackend, AddsUpTheGradientsOfPieces) {
  const std::unique_ptr<Replica> whole = started_replica(*device_), pieces = started_replica(*device_);
  const Ref<Batch> same = batch();
  StepSums sums[4];
  const auto pass = [&](Replica& replica, std::uint32_t begin, std::uint32_t count, StepSums& measured) {
    replica.ingest(same, begin, count);
    replica.forward(0);
    return replica.loss(testkit::cross_entropy(), kBatch, measured);
  };
  const auto nobody = [](int, const Ref<Event>&) {};
  Ref<Event> last;
  for (int round = 0; round < 2; ++round) {  // the second starts afresh
    pass(*whole, 0, kBatch, sums[3]);
    whole->backward(nobody);
    const std::uint32_t begins[] = {0, 1, 3, kBatch};
    for (std::size_t i = 0; i < 3; ++i) {
      last = pass(*pieces, begins[i], begins[i + 1] - begins[i], sums[i]);
      if (i > 0) pieces->keep_gradients();
      pieces->backward(nobody);
    }
  }
  whole->finish();
  if (last) last->wait();  // the other sums are complete with the last one
  EXPECT_NEAR(sums[0].loss() + sums[1].loss() + sums[2].loss(), sums[3].loss(), 1e-4);
  pieces->finish();
  for (std::size_t i = 0; i < network_.parameters.size(); ++i) {
    const std::vector<float> one = whole->read(kGradient, static_cast<int>(i)),
                             sum = pieces->read(kGradient, static_cast<int>(i));
    double most = 0;
    for (const float value : one) most = std::max(most, std::abs(static_cast<double>(value)));
    EXPECT_GT(most, 0);
    for (std::size_t k = 0; k < one.size(); ++k) {
      ASSERT_NEAR(sum[k], one[k], 2e-3 * most) << network_.parameters[i].name;  // tf32 on some devices
    }
  }
}

TEST_P(EveryBackend, ExchangesTheWeightsForACopy) {
  const std::unique_ptr<Replica> replica = started_replica(*device_);
  const Ref<Batch> same = batch();
  const std::vector<float> first = replica->read(kValue, 0);
  replica->swap_with("average");  // which has not begun
  EXPECT_EQ(replica->read(kValue, 0), first);
  replica->lerp_into("average", 0.5, false);
  step(*replica, 0, same);
  const std::vector<float> second = replica->read(kValue, 0);
  ASSERT_NE(first, second);
  const auto loss_of = [&] {
    StepSums sums;
    replica->infer(same, 0, kBatch, {}, testkit::cross_entropy(), sums)->wait();
    return sums.loss();
  };
  const double after = loss_of();
  replica->swap_with("average");
  const double before = loss_of();
  EXPECT_NE(before, after);
  EXPECT_EQ(replica->read(kValue, 0), first);
  EXPECT_EQ(replica->read("average", 0), second);
  replica->swap_with("average");
  EXPECT_EQ(loss_of(), after);
}

TEST_P(EveryBackend, RunsElementsAndScalesUpdatesByWhatTheyFind) {
  const std::unique_ptr<Replica> replica = started_replica(*device_);
  const std::unique_ptr<Stream> stream = device_->make_stream("elements");
  step(*replica, 0, batch());
  double total = 0;
  const Bucket& bucket = replica->buckets().front();
  for (const int p : bucket.parameters) {
    for (const float value : replica->read(kGradient, p)) total += static_cast<double>(value);
  }
  if (GetParam() == "cuda" && group_kernel<SumPlaces>.on_device == nullptr)
    GTEST_SKIP() << "this program has no code for a device";
  SumPlaces sum;
  sum.figures = bucket.gradients;
  sum.count = 1;
  sum.places = static_cast<std::int64_t>(bucket.elements);
  const auto chunks = static_cast<std::size_t>(sum.size());
  const std::shared_ptr<std::byte> memory = device_->memory((chunks + 1) * sizeof(double), "sums and a zero");
  const std::shared_ptr<std::uint8_t[]> host = device_->host_buffer(chunks * sizeof(double));
  sum.sums = reinterpret_cast<double*>(memory.get());
  stream->run(group_kernel<SumPlaces>, &sum);
  stream->copy_to_host(host.get(), memory.get(), chunks * sizeof(double));
  const Ref<Event> done = stream->record();
  if (done) done->wait();
  std::vector<double> parts(chunks);
  std::memcpy(parts.data(), host.get(), chunks * sizeof(double));
  double found = 0;
  for (const double part : parts) found += part;
  EXPECT_NEAR(found, total, 1e-6);

  const int parameter = bucket.parameters.front();
  const std::vector<float> before = replica->read(kValue, parameter);
  UpdateStep update;
  update.learning_rate = 0.05;
  update.scale = reinterpret_cast<const float*>(sum.sums + chunks);  // zero: nothing is updated
  replica->update(0, update, done);
  EXPECT_EQ(replica->read(kValue, parameter), before);
}

INSTANTIATE_TEST_SUITE_P(Discovered, EveryBackend, testing::ValuesIn(backend_names()), by_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryBackend);  // a build without oneDNN has no backend

}  // namespace
}  // namespace millrace::conformance
