// Requirements of a replica on a device besides training: inference, lookahead, partial batches, an accurate memory plan, copies
// during compute, and errors with remedies.
#include <algorithm>
#include <chrono>
#include <thread>

#include "agreement.h"
#include "device_memory.h"
#include "testkit/filled_buckets.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"

namespace millrace::gpu::replica_test {
namespace {

constexpr std::uint32_t kBatch = 24;

class GpuReplica : public GpuTest {
 protected:
  std::shared_ptr<const Network> network(const std::string& name) {
    return testkit::network_from_file(pipelines_folder() + "/networks/" + name + ".toml", registry());
  }
  Trainee trainee(Device& on, const std::shared_ptr<const Network>& net, CompileOptions options = {},
                  std::uint32_t batch = kBatch) const {
    options.train_batch = options.infer_batch = batch;
    return {on, net, options, random_values(*net, 4)};
  }
};

TEST_F(GpuReplica, InfersWhatTheCpuInfersThroughEveryView) {
  const auto net = network("airbench94");
  const std::vector<View> views = {{.weight = 0.5}, {.flip_x = true, .weight = 0.25}, {.dx = -1, .dy = 1, .weight = 0.25}};
  std::vector<std::vector<float>> logits;
  std::vector<StepSums> sums(2);
  constexpr std::uint32_t kFew = 6;  // the largest network here, three times
  for (Device* on : {&device(), &oracle()}) {
    Trainee here = trainee(*on, net, {}, kFew);
    here.replica().infer(random_batch(*on, *net, kFew, 9), 0, kFew, views, testkit::cross_entropy(), sums[logits.size()]);
    here.replica().finish();
    logits.push_back(here.logits());
  }
  EXPECT_LT(relative_difference(logits[0], logits[1]), tolerance(Precision::fp32));
  EXPECT_NEAR(sums[0].loss(), sums[1].loss(), tolerance(Precision::fp32) * sums[1].loss());
  EXPECT_EQ(sums[0].weight(), sums[1].weight());
}

TEST_F(GpuReplica, MirrorsTheMapsOfMirroredViewsBack) {
  const std::shared_ptr<const Network> net = testkit::network_from_text(
      "input = { channels = 3, height = 6, width = 9 }\nlayers = [ { op = \"conv\", out = 20, kernel = 3, padding = 1 },\n"
      "  { op = \"gelu\" }, { op = \"conv\", out = 5, kernel = 3, padding = 1 } ]\n");
  const std::vector<View> views = {{.weight = 0.25}, {.flip_x = true, .weight = 0.75}};
  std::vector<std::vector<float>> maps;
  StepSums none;
  for (Device* on : {&device(), &oracle()}) {
    Trainee here = trainee(*on, net);
    here.replica().infer(random_batch(*on, *net, kBatch, 9), 0, kBatch, views, nullptr, none);
    here.replica().finish();
    maps.push_back(here.logits());
  }
  ASSERT_EQ(maps[0].size(), std::size_t{kBatch * 5 * 6 * 9});
  EXPECT_LT(relative_difference(maps[0], maps[1]), tolerance(Precision::fp32));
}

TEST_F(GpuReplica, TakesFewerSamplesThanItWasCompiledFor) {
  const auto net = network("quickstart");
  Trainee here = trainee(device(), net), there = trainee(oracle(), net);
  for (Trainee* one : {&here, &there}) {
    one->step(random_batch(one == &here ? device() : oracle(), *net, 7, 1), 0, 0.01);
    one->step(random_batch(one == &here ? device() : oracle(), *net, kBatch, 2), 1, 0.01);
  }
  EXPECT_NEAR(here.loss(), there.loss(), 1e-4 * there.loss());
  EXPECT_LT(relative_difference(here.values(), there.values()), tolerance(Precision::fp32));
}

TEST_F(GpuReplica, LooksAheadAsTheCpuDoes) {
  const auto net = network("quickstart");
  Arrays values[2];
  int at = 0;
  for (Device* on : {&device(), &oracle()}) {
    CompileOptions options;
    options.request = {testkit::sgd(*net, 0.85), {"slow"}};
    Trainee here = trainee(*on, net, options);
    for (std::uint64_t step = 0; step < 4; ++step) {
      here.step(random_batch(*on, *net, kBatch, step), step, 0.01);
      here.replica().lerp_into("slow", 0.5 + 0.1 * static_cast<double>(step), true);
    }
    values[at++] = here.values();
  }
  EXPECT_LT(relative_difference(values[0], values[1]), tolerance(Precision::fp32));
}

// The second batch has the first one's images, reversed and moved differently; a device that keeps them does not read them.
TEST_F(GpuReplica, TrainsToTheSameBitsFromImagesThatItKeeps) {
  const auto net = network("quickstart");
  const std::size_t bytes = net->input.bytes();
  Arrays values[2];
  for (const bool keeps : {false, true}) {
    CompileOptions options;
    if (keeps) options.resident_sets.push_back({"train", kBatch, net->input});
    Trainee here = trainee(device(), net, options);
    const Ref<Batch> first = random_batch(device(), *net, kBatch, 1), second = random_batch(device(), *net, kBatch, 2);
    std::uint8_t* const pixels = second->change_pixels();
    for (std::uint32_t slot = 0; slot < kBatch; ++slot) {
      const std::uint32_t index = kBatch - 1 - slot;
      first->samples[slot].key.index = slot;
      second->samples[slot].key.index = index;
      if (keeps && on_gpu()) {
        std::fill_n(pixels + slot * bytes, bytes, std::uint8_t{255});
      } else {
        std::copy_n(first->pixels + index * bytes, bytes, pixels + slot * bytes);
      }
    }
    first->resident_set = second->resident_set = keeps ? 0 : -1;
    for (std::uint64_t step = 0; step < 6; ++step) {
      const Ref<Batch>& batch = step % 2 == 0 ? first : second;
      while (batch->in_flight != 0) std::this_thread::yield();  // a batch has one reader at a time
      here.step(batch, step, 0.01);
    }
    here.loss();
    values[keeps ? 1 : 0] = here.values();
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST_F(GpuReplica, GivesBackWhatWasWritten) {
  const auto net = network("quickstart");
  Trainee here = trainee(device(), net);
  const Arrays written = random_values(*net, 99);
  for (std::size_t p = 0; p < written.size(); ++p) here.replica().write(kValue, static_cast<int>(p), written[p]);
  EXPECT_EQ(here.values(), written);
}

// Chosen by expectation or timing: a run that starts from saved weights uses their choice, even if its own would differ, and for
// other counts too. Nothing is logged, since nothing is chosen again.
TEST_F(GpuReplica, ComputesWithTheEnginesThatAnotherRunSaved) {
  const auto net = network("quickstart");
  for (const Tune tune : {Tune::heuristic, Tune::measure}) {
    SCOPED_TRACE(to_string(tune));
    CompileOptions options;
    options.precision = Precision::bf16;
    options.tune = tune;
    const auto train = [&](std::string& plans) {
      Trainee here = trainee(device(), net, options);
      here.step(random_batch(device(), *net, kBatch, 1), 0, 0.01);
      here.step(random_batch(device(), *net, 7, 2), 1, 0.01);
      here.loss();
      plans = here.replica().plans();
      return here.values();
    };
    std::string saved, again;
    const Arrays first = train(saved);
    if (saved.empty()) GTEST_SKIP() << "this backend has nothing to choose";
    options.plans = saved;
    options.tune = tune == Tune::measure ? Tune::heuristic : Tune::measure;
    testing::internal::CaptureStderr();
    const Arrays second = train(again);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(again, saved);
    EXPECT_EQ(second, first);
  }
}

// Ten gigabytes, so that the driver's own memory and loaded kernels hardly matter.
TEST_F(GpuReplica, HoldsTheMemoryThatWasPredicted) {
  if (!on_gpu()) GTEST_SKIP() << "only a device's memory can be asked for";
  const auto net = network("resnet50");
  CompileOptions options;
  options.train_batch = 256;
  options.precision = Precision::bf16;
  {  // loads kernels and fills the libraries' own buffers; another device object, whose pool is destroyed with it
    CompileOptions small = options;
    small.train_batch = 2;
    const auto other = backend().open(0, {});
    Trainee warm(*other, net, small, {});
    warm.step(random_batch(*other, *net, 2, 1), 0, 0.01);
    warm.loss();
  }
  const auto before = free_device_memory();
  if (!before) GTEST_SKIP() << "the driver does not say how much memory is free";
  Trainee here(device(), net, options, {});
  for (std::uint64_t step = 0; step < 3; ++step) here.step(random_batch(device(), *net, 256, step), step, 0.01);
  here.loss();
  const auto after = free_device_memory();
  const auto planned = static_cast<double>(here.replica().memory_plan().total());
  const double held = static_cast<double>(*before) - static_cast<double>(*after);
  RecordProperty("planned_mib", fmt::format("{:.1f}", planned / 1048576));
  RecordProperty("held_mib", fmt::format("{:.1f}", held / 1048576));
  EXPECT_NEAR(held, planned, 0.1 * planned);
}

// The next batch reaches the device while the previous step still computes.
TEST_F(GpuReplica, CopiesUnderCompute) {
  if (!on_gpu()) GTEST_SKIP() << "the CPU does one thing after another";
  const auto net = network("resnet50");
  CompileOptions options;
  options.train_batch = 64;
  options.precision = Precision::bf16;
  Trainee here(device(), net, options, random_values(*net, 4));
  const Ref<Batch> first = random_batch(device(), *net, 64, 1), second = random_batch(device(), *net, 64, 2);
  for (std::uint64_t step = 0; step < 3; ++step) here.step(first, step, 0.001);  // makes recordings and loads kernels
  here.loss();
  Ref<Event> computed;
  for (std::uint64_t step = 3; step < 8; ++step) computed = here.step(first, step, 0.001);
  here.replica().ingest(second, 0, 64);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (second->in_flight != 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  const bool still_computing = !computed->complete();
  EXPECT_EQ(second->in_flight, 0U);
  EXPECT_TRUE(still_computing) << "the copy waited for five steps of training";
  here.loss();
}

// The host only submits: it returns long before the device has finished.
TEST_F(GpuReplica, RunsAheadOfTheDevice) {
  if (!on_gpu()) GTEST_SKIP() << "backends may compute on the caller's thread";
  const auto net = network("resnet50");
  CompileOptions options;
  options.train_batch = 64;
  Trainee here(device(), net, options, random_values(*net, 4));
  const Ref<Batch> batch = random_batch(device(), *net, 64, 1);
  for (std::uint64_t step = 0; step < 3; ++step) here.step(batch, step, 0.001);
  here.loss();
  EXPECT_FALSE(here.step(batch, 3, 0.001)->complete());
  here.loss();
}

TEST_F(GpuReplica, SaysWhatWouldFitWhenMemoryDoesNot) {
  if (!on_gpu()) GTEST_SKIP() << "the CPU's memory is virtual";
  const auto net = network("vgg16");
  CompileOptions options;
  options.train_batch = 1U << 16;
  try {
    const std::unique_ptr<Replica> replica = device().compile(*net, options);
    replica->start();
    FAIL() << "terabytes were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device) << error.what();
    for (const char* word : {"planned", "used", "free"}) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << ": " << error.what();
    }
  }
  Trainee after(device(), network("quickstart"), {.train_batch = kBatch}, {});  // the device is still usable
  after.step(random_batch(device(), *network("quickstart"), kBatch, 1), 0, 0.01);
  EXPECT_GT(after.loss(), 0);
}

TEST_F(GpuReplica, RefusesADeviceThatIsNotThereByItsNumber) {
  try {
    backend().open(1000, {});
    FAIL() << "was opened";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1000"), std::string::npos) << error.what();
  }
}

TEST_F(GpuReplica, NamesItsDevice) {
  const DeviceInfo& info = device().info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.memory, std::size_t{1} << 28);
  EXPECT_FALSE(info.details.empty());
}

}  // namespace
}  // namespace millrace::gpu::replica_test
