// Whole training steps on a simulated GPU: every piece of work is ordered, every tensor used in its lifetime, and planted faults
// are found. (tests/gpu verifies the results, also on the simulation.)
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "backend.h"
#include "millrace/backend/device_times.h"
#include "simulation/simulated_machine.h"
#include "testkit/files.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"

namespace millrace::cuda::replica_test {
namespace {

constexpr std::uint32_t kBatch = 6;
constexpr std::size_t kBatches = 3;  // alternating, as they circulate in a graph; one more for inference
constexpr const char* kNetwork = R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "conv1", op = "conv", out = 12, kernel = 3, padding = 1 }, { op = "gelu" },
  { name = "conv2", op = "conv", out = 12, kernel = 3, padding = 1, bias = false }, { name = "bn2", op = "batch_norm" },
  { op = "add", from = ["bn2", "conv1"] }, { op = "relu" }, { op = "max_pool", kernel = 2 },
  { name = "conv3", op = "conv", out = 20, kernel = 3 }, { op = "relu" }, { op = "dropout" },
  { name = "fc", op = "linear", out = 5 },
])";

// A batch with pinned pixels known to the machine.
struct PinnedBatch : Batch {
  Ref<Batch> plain;
  std::shared_ptr<std::uint8_t[]> memory;
};

class Course {
 public:
  explicit Course(const SimulationOptions& simulation = {}, const CompileOptions& more = {})
      : network_(testkit::network_from_text(kNetwork)),
        machine_(std::make_shared<SimulatedMachine>(simulation)),
        device_(machine_) {
    CompileOptions options = more;
    options.train_batch = options.infer_batch = kBatch;
    options.bucket_bytes = 4096;  // several buckets
    options.request = {testkit::sgd(*network_, 0.9, 1e-4), {"slow"}};
    replica_ = device_.compile(*network_, options);
    replica_->start();
    testkit::randomise(*network_, *replica_, 3);
    for (std::uint64_t seed = 0; seed < kBatches + 1; ++seed) batches_.push_back(pinned_batch(seed));
  }

  // Like a graph: nothing waits, and a batch is refilled once the device has read it.
  void run(int steps) {
    for (int step = 0; step < steps; ++step) one_step(static_cast<std::uint64_t>(step), kBatch);
    replica_->finish();
  }

  void one_step(std::uint64_t number, std::uint32_t count) {
    StepSums& sums = sums_.emplace_back();
    Ref<Batch> batch = free_batch(number % kBatches);
    replica_->ingest(batch, 0, count);
    replica_->forward(number);
    replica_->loss(testkit::cross_entropy(), count, sums);
    std::vector<Ref<Event>> filled;
    replica_->backward([&](int, Ref<Event> event) { filled.push_back(std::move(event)); });
    UpdateStep update;
    update.step = number;
    update.learning_rate = 0.05;
    for (std::size_t bucket = 0; bucket < filled.size(); ++bucket) {
      last_update_ = replica_->update(static_cast<int>(bucket), update, filled[bucket]);
    }
    if (number % 3 == 2) replica_->lerp_into("slow", 0.5, true);
  }

  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> all;
    for (int p = 0; p < static_cast<int>(network_->parameters.size()); ++p) all.push_back(replica_->read(kValue, p));
    return all;
  }
  Ref<Batch> batch(std::size_t at) { return batches_[at]; }
  Ref<Batch> free_batch(std::size_t at) {  // each is read once at a time
    while (batches_[at]->in_flight > 0) std::this_thread::yield();
    return batches_[at];
  }
  Replica& replica() const { return *replica_; }
  const std::deque<StepSums>& sums() const { return sums_; }
  // A line for each violation of these kinds; all of them if none is given.
  std::string violations(const std::string& kind = {}) const {
    std::string text;
    for (const testkit::Violation& violation : machine_->violations()) {
      if (kind.empty() || violation.kind == kind) text += describe(violation) + "\n";
    }
    return text;
  }

 private:
  Ref<Batch> pinned_batch(std::uint64_t seed) {
    auto batch = make_ref<PinnedBatch>();
    batch->plain = testkit::make_batch(kBatch, network_->input);
    testkit::fill_at_random(*batch->plain, 5, seed);
    batch->memory = device_.host_buffer(kBatch * network_->input.bytes());
    std::copy_n(batch->plain->pixels, kBatch * network_->input.bytes(), batch->memory.get());
    batch->count = kBatch;
    batch->weight = kBatch;
    batch->image = batch->window = network_->input;
    batch->pixels = batch->memory.get();
    batch->records = batch->plain->records;
    batch->samples = batch->plain->samples;
    batch->labels = batch->plain->labels;
    batch->weights = batch->plain->weights;
    return batch;
  }

  std::shared_ptr<const Network> network_;
  std::shared_ptr<SimulatedMachine> machine_;
  CudaDevice device_;
  std::deque<StepSums> sums_;
  std::vector<Ref<Batch>> batches_;
  Ref<Event> last_update_;
  std::unique_ptr<Replica> replica_;
};

class InEveryWay : public testing::TestWithParam<std::tuple<Precision, bool>> {
 protected:
  static CompileOptions options() {
    CompileOptions options;
    options.precision = std::get<0>(GetParam());
    options.graphs = std::get<1>(GetParam());
    return options;
  }
};

TEST_P(InEveryWay, TrainsWithoutAViolation) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Course course({.seed = seed}, options());
    course.run(8);
    EXPECT_EQ(course.violations(), "") << "seed " << seed;
    EXPECT_LT(course.sums().back().loss(), course.sums().front().loss());
  }
}

TEST_P(InEveryWay, EndsWithTheSameBitsWhateverTheTiming) {
  Course one({.seed = 1}, options()), other({.seed = 77}, options());
  one.run(6);
  other.run(6);
  EXPECT_EQ(one.values(), other.values());
}

INSTANTIATE_TEST_SUITE_P(GpuReplica, InEveryWay,
                         testing::Combine(testing::Values(Precision::fp32, Precision::bf16), testing::Bool()),
                         [](const auto& tested) {
                           return std::string(to_string(std::get<0>(tested.param))) +
                                  (std::get<1>(tested.param) ? "_graphs" : "_eager");
                         });

TEST(GpuReplica, SaysByTheDevicesClockHowLongItWorkedAtWhat) {
  Course course;
  const auto times = [&] { return dynamic_cast<const MeasuresDevice&>(course.replica()).device_times(); };
  EXPECT_EQ(times().busy(), 0);
  course.run(4);
  const DeviceTimes trained = times();
  EXPECT_GT(trained.training, 0);
  EXPECT_GT(trained.update, 0);
  EXPECT_GT(trained.copying, 0);
  EXPECT_EQ(trained.inference, 0);
  EXPECT_EQ(times().busy(), trained.busy()) << "nothing was submitted: the device idles";
  StepSums sums;
  course.replica().infer(course.free_batch(kBatches), 0, kBatch, {}, testkit::cross_entropy(), sums)->wait();
  course.replica().finish();
  EXPECT_GT(times().inference, 0);
  EXPECT_EQ(times().training, trained.training);
  EXPECT_EQ(course.violations(), "");
}

TEST(GpuReplica, RecordedPassesComputeWhatSubmittedOnesDo) {
  CompileOptions eager, graphs;
  eager.graphs = false;
  Course one({}, eager), other({}, graphs);
  one.run(6);
  other.run(6);
  EXPECT_EQ(one.values(), other.values());
}

TEST(GpuReplica, MixesTrainingInferenceAndPartialBatches) {
  Course course;
  StepSums sums;
  const std::vector<View> views = {{.weight = 0.5}, {.flip_x = true, .weight = 0.5}};
  for (std::uint64_t step = 0; step < 9; ++step) {
    course.one_step(step, step % 3 == 1 ? 4 : kBatch);
    if (step % 4 == 3) course.replica().infer(course.free_batch(kBatches), 0, 5, views, testkit::cross_entropy(), sums);
  }
  course.replica().finish();
  EXPECT_EQ(course.violations(), "");
  EXPECT_EQ(sums.weight(), 5);
}

// The result lies in the arena, which may move for the batch that comes next.
TEST(GpuReplica, HasNoResultOfInferenceOnceTheNextBatchHasCome) {
  Course course;
  StepSums sums;
  course.replica().infer(course.free_batch(kBatches), 0, 5, {}, testkit::cross_entropy(), sums)->wait();
  EXPECT_EQ(course.replica().logits().size(), 25U);
  course.replica().ingest(course.free_batch(0), 0, kBatch);
  EXPECT_TRUE(course.replica().logits().empty());
  course.replica().read_outputs({})->wait();
  course.replica().forward(0);
  EXPECT_EQ(course.replica().logits().size(), 5U * kBatch);
  course.replica().finish();
  EXPECT_EQ(course.violations(), "");
}

TEST(GpuReplica, LookaheadWritesValuesAfterTheInferenceThatReadsThem) {
  Course course;
  StepSums sums;
  course.one_step(0, kBatch);
  course.replica().lerp_into("slow", 0.5, true);  // the copy begins
  course.replica().infer(course.free_batch(kBatches), 0, kBatch, {}, testkit::cross_entropy(), sums);
  course.replica().lerp_into("slow", 0.5, true);
  course.replica().finish();
  EXPECT_EQ(course.violations(), "");
}

constexpr std::uint8_t kPoison = 255;

// Circulating batches repeat the same images, in other slots and with other records; the first three steps bring them.
std::vector<std::vector<float>> train_on_a_set(bool resident, bool graphs, std::string& violations) {
  CompileOptions options;
  options.graphs = graphs;
  options.resident_sets.push_back({"train", kBatches * kBatch, {8, 8, 3}});
  options.resident_sets.push_back({"validate", kBatch, {8, 8, 3}});
  Course course({}, options);
  const std::size_t bytes = options.resident_sets[0].image.bytes();
  std::vector<std::vector<std::uint8_t>> images;
  std::vector<std::int32_t> labels;
  for (std::size_t at = 0; at < kBatches; ++at) {
    for (std::uint32_t slot = 0; slot < kBatch; ++slot) {
      const std::uint8_t* const pixels = course.batch(at)->pixels + slot * bytes;
      images.emplace_back(pixels, pixels + bytes);
      labels.push_back(course.batch(at)->labels[slot]);
    }
  }
  const std::vector<View> views = {{.dx = 1, .weight = 0.5}, {.flip_x = true, .weight = 0.5}};
  StepSums sums;
  for (std::uint64_t step = 0; step < 9; ++step) {
    const Ref<Batch> batch = course.free_batch(step % kBatches);
    const bool mixed = step == 7;
    std::uint8_t* const pixels = batch->change_pixels();
    for (std::uint32_t slot = 0; slot < kBatch; ++slot) {
      const std::size_t index = (step * kBatch + slot) * 7 % images.size();  // each once in three steps
      const bool poisoned = resident && step >= kBatches && !mixed;          // must not be read
      batch->samples[slot].key.index = index;
      batch->labels[slot] = labels[index];
      batch->weights[slot] = step == 4 && slot == 2 ? 0.0F : 1.0F;
      if (batch->weights[slot] == 0) {
        std::fill_n(pixels + slot * bytes, bytes, poisoned ? kPoison : std::uint8_t{0});
      } else {
        std::copy_n(images[index].data(), bytes, pixels + slot * bytes);
        if (mixed) pixels[slot * bytes] = 1;
        if (poisoned) std::fill_n(pixels + slot * bytes, bytes, kPoison);
      }
      AugmentationRecord& record = batch->records[slot] = {};
      if ((step + slot) % 2 == 1) record.flip_x(8);
      record.translate(static_cast<int>(step % 3) - 1, static_cast<int>(slot % 3) - 1);
    }
    batch->resident_set = resident && !mixed ? 0 : -1;
    course.one_step(step, step % 4 == 3 ? kBatch - 2 : kBatch);
    if (step % 4 != 3) continue;
    const Ref<Batch> validation = course.free_batch(kBatches);
    validation->resident_set = resident ? 1 : -1;
    course.replica().infer(validation, 0, kBatch, views, testkit::cross_entropy(), sums);
  }
  course.replica().finish();
  violations = course.violations();
  std::vector<std::vector<float>> values = course.values();
  values.push_back({static_cast<float>(sums.loss()), static_cast<float>(sums.at(testkit::kCorrect))});
  return values;
}

TEST(GpuReplica, ImagesOnTheDeviceTrainToTheSameBits) {
  for (const bool graphs : {false, true}) {
    std::string violations;
    const auto without = train_on_a_set(false, graphs, violations);
    EXPECT_EQ(violations, "");
    EXPECT_EQ(train_on_a_set(true, graphs, violations), without);
    EXPECT_EQ(violations, "");
  }
}

TEST(GpuReplica, SaysWhatTheImagesOnTheDeviceTake) {
  CompileOptions options;
  options.resident_sets.push_back({"train", 1000, {8, 8, 3}});
  const Course course({}, options);
  const MemoryPlan plan = course.replica().memory_plan();
  const auto item = std::find_if(plan.items.begin(), plan.items.end(),
                                 [](const MemoryPlan::Item& one) { return one.what == "images of [train] held on the device"; });
  ASSERT_NE(item, plan.items.end());
  EXPECT_EQ(item->bytes, 1001 * 8 * 8 * 3U);
}

TEST(GpuReplica, RefusesImagesThatDoNotFitTheDevice) {
  CompileOptions options;
  options.resident_sets.push_back({"train", 1000, {8, 8, 3}});
  options.resident_sets.push_back({"validate", 70000, {8, 8, 3}});
  const Error error = testkit::error_of(ErrorKind::usage, [&] { Course course({.memory = 8 << 20}, options); });
  const std::string text = error.message();
  EXPECT_EQ(
      text.find("the images that cuda:0 is to hold (1000 of [train], 8 x 8 x 3 each and 70000 of [validate], 8 x 8 x 3 each) "
                "take 13.0 MiB. The network needs "),
      0U)
      << text;
  EXPECT_NE(text.find("which exceeds its 8.0 MiB: take fewer or smaller images, or set `device = false` in their cache"),
            std::string::npos)
      << text;
}

TEST(GpuReplica, ReportsWorkThatFailedAndHangsNobody) {
  for (std::uint64_t at : {5U, 40U, 90U}) {
    SimulationOptions options;
    options.fail_operation = at;
    bool reported = false;
    try {
      Course course(options);
      course.run(3);
    } catch (const Error& error) {
      reported = error.kind() == ErrorKind::device;
    }
    EXPECT_TRUE(reported) << at;
  }
}

// ---- Planted faults ----

// Counts how often something happens in a course, by planting a fault that never comes.
std::vector<std::string> kinds_found(const SimulationOptions& options) {
  std::vector<std::string> kinds;
  try {
    Course course(options);
    course.run(5);
    for (const char* kind :
         {"missing wait", "buffer reused in flight", "released in flight", "wrong lifetime", "read before written"}) {
      if (!course.violations(kind).empty()) kinds.push_back(kind);
    }
  } catch (const Error&) {
    kinds.push_back("error");
  }
  return kinds;
}

TEST(PlantedFaults, AWaitLeftOutIsFound) {
  std::string found;
  int count = 0;
  for (std::uint64_t wait = 1; wait <= 70; ++wait) {
    SimulationOptions options;
    options.leave_out_wait = wait;
    const std::vector<std::string> kinds = kinds_found(options);
    if (std::count(kinds.begin(), kinds.end(), "missing wait") == 0) continue;
    ++count;
    found += std::to_string(wait) + " ";
  }
  // Most waits are redundant: an update waits for `after` and for its bucket, which is the same mark here, and buckets fill in
  // order. Found: compute that does not wait for its copy or for the update; copies that overtake compute.
  EXPECT_GE(count, 10) << found;
}

TEST(PlantedFaults, ABufferGivenBackTooEarlyIsFound) {
  int found = 0;
  for (std::uint64_t callback = 1; callback <= 8; ++callback) {
    SimulationOptions options;
    options.call_back_early = callback;
    Course course(options);
    for (std::uint64_t step = 0; step < 5; ++step) {
      course.one_step(step, kBatch);
      for (std::size_t at = 0; at < 3; ++at) {  // refilled as soon as it is back
        if (course.batch(at)->in_flight == 0)
          std::fill_n(course.batch(at)->change_pixels(), kBatch * 192, static_cast<std::uint8_t>(step));
      }
    }
    try {
      course.replica().finish();
    } catch (const Error&) {
    }
    found += course.violations("buffer reused in flight").empty() ? 0 : 1;
  }
  EXPECT_GE(found, 3);
}

TEST(PlantedFaults, AHostWaitLeftOutIsFound) {
  int found = 0;
  for (std::uint64_t wait = 1; wait <= 120; ++wait) {
    SimulationOptions options;
    options.leave_out_host_wait = wait;
    const std::vector<std::string> kinds = kinds_found(options);
    found += kinds.empty() ? 0 : 1;
  }
  // Most of them come before a parameter is written, when nothing runs. For those of the parameters themselves see
  // parameter_store_test.cpp.
  EXPECT_GE(found, 2);
}

TEST(PlantedFaults, AWrongLifetimeIsFound) {
  int early = 0, late = 0, shared = 0;
  for (std::uint64_t tensor = 1; tensor <= 40; ++tensor) {
    SimulationOptions options;
    options.end_lifetime_early = tensor;
    early += kinds_found(options).empty() ? 0 : 1;
    options = {};
    options.begin_lifetime_late = tensor;
    late += kinds_found(options).empty() ? 0 : 1;
    options = {};
    options.share_place = tensor;
    shared += kinds_found(options).empty() ? 0 : 1;
  }
  EXPECT_GE(early, 30);
  EXPECT_GE(late, 30);
  EXPECT_GE(shared, 3);
}

}  // namespace
}  // namespace millrace::cuda::replica_test
