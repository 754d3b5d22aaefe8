// A replica through the interface that stages use: batches in, gradients in buckets, updated weights out.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "backend.h"
#include "cpu_fixture.h"
#include "millrace/backend/device_times.h"
#include "millrace/util/host_cores.h"
#include "testkit/gradient_check.h"
#include "testkit/losses.h"
#include "testkit/optimizers.h"
#include "work_queue.h"

namespace millrace::cpu::test {
namespace {

constexpr const char* kConvNet = R"(
input = { channels = 3, height = 8, width = 8, mean = [0.5, 0.4, 0.3], deviation = [0.2, 0.25, 0.3] }
layers = [
  { name = "conv1", op = "conv", out = 20, kernel = 3, padding = 1 }, { op = "max_pool", kernel = 2 },
  { name = "bn1", op = "batch_norm" }, { op = "relu" },
  { name = "conv2", op = "conv", out = 32, kernel = 3, padding = 1, bias = false }, { op = "relu" },
  { op = "global_average_pool" }, { name = "fc", op = "linear", out = 6 },
])";

constexpr const char* kPlainNet = R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "conv1", op = "conv", out = 20, kernel = 3, padding = 1 }, { op = "gelu" },
  { name = "conv2", op = "conv", out = 16, kernel = 3, stride = 2 }, { op = "relu" }, { name = "fc", op = "linear", out = 6 },
])";

// A batch without a graph.
struct TestBatch : Batch {
  std::vector<std::uint8_t> pixel_data;
  std::vector<AugmentationRecord> record_data;
  std::vector<std::int32_t> label_data;
  std::vector<float> weight_data;

  TestBatch(std::uint32_t size, ImageShape shape, std::uint64_t seed)
      : pixel_data(size * shape.bytes()), record_data(size), label_data(size), weight_data(size, 1.0F) {
    for (std::size_t i = 0; i < pixel_data.size(); ++i) pixel_data[i] = static_cast<std::uint8_t>(mix64(combine(seed, i)));
    for (std::size_t i = 0; i < size; ++i) label_data[i] = static_cast<std::int32_t>(mix64(combine(seed + 1, i)) % 6);
    count = size;
    weight = size;
    image = window = shape;
    pixels = pixel_data.data();
    records = record_data.data();
    labels = label_data.data();
    weights = weight_data.data();
  }
};

Ref<Batch> make_batch(const Network& network, std::uint32_t size, std::uint64_t seed = 3) {
  return Ref<Batch>(new TestBatch(size, network.input, seed));
}

// Adds an optimizer and a copy if the test has none.
CompileOptions with_optimizer(CompileOptions options, const Network& network) {
  if (options.request.update.optimizers.empty()) options.request = {testkit::sgd(network, 0.9), {"slow"}};
  return options;
}

struct Machine {
  std::shared_ptr<const Network> network;
  CompileOptions options;
  std::unique_ptr<Device> device;
  std::unique_ptr<Replica> replica;

  explicit Machine(const char* text, CompileOptions compile = {.train_batch = 8, .infer_batch = 8}, std::vector<int> cores = {})
      : network(network_of(text)),
        options(with_optimizer(std::move(compile), *network)),
        device(CpuBackend().open(0, {std::move(cores)})),
        replica(device->compile(*network, options)) {
    replica->start();
    const auto values = parameter_values(*network, 5);
    for (int i = 0; i < static_cast<int>(values.size()); ++i) replica->write(kValue, i, values[static_cast<std::size_t>(i)]);
  }

  StepSums gradients(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count, double normaliser,
                     std::uint64_t step = 0) {
    StepSums sums;
    replica->ingest(batch, begin, count);
    replica->forward(step);
    const Ref<Event> measured = replica->loss(testkit::cross_entropy(), normaliser, sums);
    replica->backward([](int, Ref<Event>) {});
    measured->wait();
    return sums;
  }
  void update(double rate, std::uint64_t step = 0) {
    for (int bucket = 0; bucket < static_cast<int>(replica->buckets().size()); ++bucket) {
      replica->update(bucket, {{.learning_rate = rate}, step}, nullptr);
    }
  }
  std::vector<std::vector<float>> all(std::string_view state) {
    std::vector<std::vector<float>> values;
    for (int i = 0; i < static_cast<int>(network->parameters.size()); ++i) {
      const Parameter& parameter = network->parameters[static_cast<std::size_t>(i)];
      if (state == kValue || (parameter.trainable && !parameter.statistic)) values.push_back(replica->read(state, i));
    }
    return values;
  }
};

TEST(Replica, RefusesAParameterOfTheWrongSize) {
  Machine machine(kConvNet);
  EXPECT_THROW(machine.replica->write(kValue, 0, std::vector<float>(3)), Error);
  EXPECT_NO_THROW(machine.replica->finish());
}

TEST(Replica, PlansItsMemoryBeforeItHasAny) {
  const auto network = network_of(kConvNet);
  const auto device = CpuBackend().open(0, {});
  const auto small = device->compile(*network, {.train_batch = 8, .infer_batch = 8});
  const auto large = device->compile(*network, {.train_batch = 64, .infer_batch = 8});
  EXPECT_GT(large->memory_plan().total(), small->memory_plan().total());
  EXPECT_GT(small->memory_plan().items.size(), 3U);
}

TEST(Replica, PlansTheSumOfSeveralViews) {
  const auto network = network_of(kConvNet);
  const auto device = CpuBackend().open(0, {});
  const auto planned = [&](const CompileOptions& options) { return device->compile(*network, options)->memory_plan().total(); };
  EXPECT_EQ(planned({.infer_batch = 8, .request = {.sums_views = true}}) - planned({.infer_batch = 8}), 8 * 6 * sizeof(float));
}

// Without training, normalisations are folded into weights, which follow the parameters.
TEST(Replica, PredictsTheSameWithoutTraining) {
  constexpr const char* kNormalised = R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "conv1", op = "conv", out = 32, kernel = 3, padding = 1, bias = false }, { op = "batch_norm" }, { name = "r1", op = "relu" },
  { name = "conv2", op = "conv", out = 32, kernel = 3, padding = 1 }, { name = "bn2", op = "batch_norm" },
  { op = "add", from = ["bn2", "r1"] }, { op = "relu" }, { op = "global_average_pool" }, { name = "fc", op = "linear", out = 6 },
])";
  Machine trains(kNormalised), predicts(kNormalised, {.infer_batch = 8, .request = {.may_fold = true}});
  const Ref<Batch> batch = make_batch(*trains.network, 8);
  const auto logits = [&](Machine& machine) {
    StepSums sums;
    machine.replica->infer(batch, 0, 8, {}, nullptr, sums);
    return machine.replica->logits();
  };
  EXPECT_LT(relative_difference(logits(predicts), logits(trains)), 2e-6);
  const auto others = parameter_values(*trains.network, 9);
  for (Machine* machine : {&trains, &predicts}) {
    for (int i = 0; i < static_cast<int>(others.size()); ++i)
      machine->replica->write(kValue, i, others[static_cast<std::size_t>(i)]);
  }
  EXPECT_LT(relative_difference(logits(predicts), logits(trains)), 2e-6);
}

TEST(Replica, EndsWithTheSameBitsEveryTime) {
  const auto train = [] {
    Machine machine(kConvNet, {.train_batch = 16});
    const Ref<Batch> batch = make_batch(*machine.network, 16);
    for (std::uint64_t step = 0; step < 5; ++step) {
      machine.gradients(batch, 0, 16, 16, step);
      machine.update(0.05, step);
    }
    return machine.all(kValue);
  };
  EXPECT_EQ(train(), train());
}

TEST(Replica, TwoOfHalfTheBatchAgreeWithOneOfTheWhole) {
  Machine whole(kPlainNet), first(kPlainNet, {.train_batch = 4}, {available_cores().front()});
  Machine second(kPlainNet, {.train_batch = 4}, {available_cores().back()});
  const Ref<Batch> batch = make_batch(*whole.network, 8);
  const StepSums all = whole.gradients(batch, 0, 8, 8);
  const StepSums left = first.gradients(batch, 0, 4, 8);
  const StepSums right = second.gradients(batch, 4, 4, 8);
  EXPECT_NEAR(all.loss(), left.loss() + right.loss(), 1e-5);
  const auto expected = whole.all(kGradient), a = first.all(kGradient), b = second.all(kGradient);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<float> sum = a[i];
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += b[i][j];
    EXPECT_LT(relative_difference(sum, expected[i]), 1e-5);
  }
}

TEST(Replica, TwoTeamsOfTwoThreadsComputeAtTheSameTime) {
  const std::vector<int> cores = {available_cores().front(), available_cores().back()};
  Machine first(kConvNet, {.train_batch = 16}, cores), second(kConvNet, {.train_batch = 16}, cores);
  const Ref<Batch> batch = make_batch(*first.network, 16);
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (Machine* machine : {&first, &second}) {
      machine->replica->ingest(batch, 0, 16);
      machine->replica->forward(step);
      static StepSums unused[2];
      machine->replica->loss(testkit::cross_entropy(), 16, unused[machine == &second ? 1 : 0]);
      machine->replica->backward([](int, Ref<Event>) {});
      machine->update(0.05, step);
    }
  }
  EXPECT_EQ(first.all(kValue), second.all(kValue));
}

TEST(Replica, TakesFewerSamplesThanItWasCompiledFor) {
  Machine large(kConvNet, {.train_batch = 8, .infer_batch = 8}), exact(kConvNet, {.train_batch = 3, .infer_batch = 3});
  const Ref<Batch> batch = make_batch(*large.network, 8);
  const StepSums a = large.gradients(batch, 2, 3, 3), b = exact.gradients(batch, 2, 3, 3);
  EXPECT_NEAR(a.loss(), b.loss(), 1e-5);
  const auto found = large.all(kGradient), expected = exact.all(kGradient);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(relative_difference(found[i], expected[i]), 1e-5);
  StepSums inferred;
  large.replica->infer(batch, 0, 5, {}, testkit::cross_entropy(), inferred)->wait();
  EXPECT_EQ(inferred.weight(), 5);
  large.replica->finish();
}

TEST(Replica, AnnouncesBucketsInOrderWhenTheyAreFilled) {
  Machine machine(kConvNet, {.train_batch = 8, .bucket_bytes = 64});
  const auto& buckets = machine.replica->buckets();
  ASSERT_GT(buckets.size(), 3U);
  const Ref<Batch> batch = make_batch(*machine.network, 8);
  std::vector<int> order;
  std::vector<std::vector<float>> seen;
  StepSums sums;
  machine.replica->ingest(batch, 0, 8);
  machine.replica->forward(0);
  machine.replica->loss(testkit::cross_entropy(), 8, sums);
  machine.replica->backward([&](int bucket, Ref<Event> filled) {
    filled->wait();
    const Bucket& b = buckets[static_cast<std::size_t>(bucket)];
    order.push_back(bucket);
    seen.emplace_back(b.gradients, b.gradients + b.elements);
  });
  machine.replica->finish();
  std::vector<bool> covered(machine.network->parameters.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    EXPECT_EQ(order[i], static_cast<int>(i));
    EXPECT_EQ(seen[i], std::vector<float>(buckets[i].gradients, buckets[i].gradients + buckets[i].elements)) << "changed later";
    for (const int parameter : buckets[i].parameters) covered[static_cast<std::size_t>(parameter)] = true;
  }
  for (std::size_t i = 0; i < covered.size(); ++i) {
    EXPECT_EQ(covered[i], machine.network->parameters[i].trainable && !machine.network->parameters[i].statistic);
  }
}

TEST(Replica, AnUpdateWaitsForItsEvent) {
  Machine machine(kConvNet);
  machine.gradients(make_batch(*machine.network, 8), 0, 8, 8);
  const Ref<HostEvent> reduced = make_ref<HostEvent>();
  const Ref<Event> updated = machine.replica->update(0, {{.learning_rate = 0.1}}, reduced);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(updated->complete());
  reduced->signal();
  updated->wait();
  EXPECT_TRUE(updated->complete());
}

TEST(Replica, LetsGoOfABatchOnceItIsRead) {
  Machine machine(kConvNet);
  const Ref<Batch> batch = make_batch(*machine.network, 8);
  machine.replica->ingest(batch, 0, 8);
  machine.replica->finish();
  EXPECT_EQ(batch->in_flight.load(), 0U);
}

TEST(Replica, KeepsAnErrorAndHangsNobody) {
  Machine machine(kConvNet);
  const Ref<Batch> batch = make_batch(*machine.network, 12);  // larger than compiled for
  int announced = 0;
  StepSums sums;
  machine.replica->ingest(batch, 0, 12);
  machine.replica->forward(0);
  machine.replica->loss(testkit::cross_entropy(), 8, sums);
  machine.replica->backward([&](int, Ref<Event> filled) {
    EXPECT_THROW(filled->wait(), Error);
    ++announced;
  });
  EXPECT_THROW(machine.replica->update(0, {{.learning_rate = 0.1}}, nullptr)->wait(), Error);
  EXPECT_EQ(announced, static_cast<int>(machine.replica->buckets().size()));
  EXPECT_THROW(machine.replica->finish(), Error);
  EXPECT_THROW(machine.replica->ingest(batch, 0, 8), Error);
  EXPECT_EQ(batch->in_flight.load(), 0U);
}

TEST(Replica, RefusesMoreSamplesThanItWasCompiledFor) {
  Machine machine(kConvNet);
  machine.replica->ingest(make_batch(*machine.network, 12), 0, 12);
  EXPECT_THROW(machine.replica->finish(), Error);
}

TEST(Replica, DropsTheSameInBackwardAsInForward) {
  Machine machine(R"(
    input = { channels = 3, height = 4, width = 4 }
    layers = [ { op = "linear", out = 40 }, { op = "dropout", probability = 0.5 }, { name = "fc", op = "linear", out = 6 } ])");
  const Ref<Batch> batch = make_batch(*machine.network, 8);
  machine.gradients(batch, 0, 8, 8, 1);
  const auto first = machine.all(kGradient);
  machine.gradients(batch, 0, 8, 8, 2);
  const auto second = machine.all(kGradient);
  machine.gradients(batch, 0, 8, 8, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, machine.all(kGradient));
}

TEST(Replica, PassesTheGradientCheckWithChannelsAndSamplesDropped) {
  Machine machine(R"(
    input = { channels = 3, height = 8, width = 8 }
    layers = [ { name = "c", op = "conv", out = 16, kernel = 3 }, { op = "gelu" },
               { op = "dropout", probability = 0.3, drops = "channels" },
               { op = "conv", out = 16, kernel = 3, padding = 1 }, { name = "d", op = "stochastic_depth", probability = 0.4 },
               { op = "add", from = ["d", "c"] }, { op = "global_average_pool" }, { name = "fc", op = "linear", out = 6 } ])");
  const auto report = testkit::check_gradients(*machine.network, *machine.replica, make_batch(*machine.network, 8));
  EXPECT_LT(report.worst(), 1e-2) << report.text();
}

TEST(Replica, TellsComputingFromWaitingForSumsAndFromIdleness) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Machine machine(kConvNet);
  const auto times = [&] { return dynamic_cast<const MeasuresDevice&>(*machine.replica).device_times(); };
  EXPECT_EQ(times().training, 0);
  machine.gradients(make_batch(*machine.network, 8), 0, 8, 8);
  machine.replica->finish();
  const DeviceTimes step = times();
  EXPECT_GT(step.training, 0);
  EXPECT_GT(step.copying, 0);
  EXPECT_EQ(step.inference + step.update, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(times().busy(), step.busy()) << "nothing was submitted";
  EXPECT_GT(times().sums, step.sums) << "the updates have not come";
  const auto summed = make_ref<HostEvent>();
  for (int bucket = 0; bucket < static_cast<int>(machine.replica->buckets().size()); ++bucket) {
    machine.replica->update(bucket, {{.learning_rate = 0.1}, 0}, summed);
  }
  const double before = times().sums;
  while (times().sums < before + 0.005) std::this_thread::yield();  // during the wait, not only at its end
  summed->signal();
  machine.replica->finish();
  EXPECT_GT(times().update, 0);
  const DeviceTimes over = times();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(times().sums + times().busy(), over.sums + over.busy()) << "the step is over: the device idles";
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_LE(times().busy() + times().sums, seconds);
}

}  // namespace
}  // namespace millrace::cpu::test
