// A replica's memory equals its plan, the error for a device that is too small, and the state after start().
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend.h"
#include "millrace/error.h"
#include "simulation/simulated_machine.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"

namespace millrace::cuda {
namespace {

constexpr const char* kNetwork = R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "conv", op = "conv", out = 12, kernel = 3, padding = 1 }, { op = "relu" }, { op = "max_pool", kernel = 2 },
  { name = "fc", op = "linear", out = 5 },
])";

// Through training with lookahead, inference and partial batches.
TEST(Replica, HoldsWhatWasPlanned) {
  const auto network = testkit::network_from_text(kNetwork);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto machine = std::make_shared<SimulatedMachine>();
    CudaDevice device(machine);
    CompileOptions options;
    options.train_batch = options.infer_batch = 200;
    options.precision = precision;
    options.resident_sets.push_back({"train", 100, network->input});
    const std::size_t free = machine->free_memory();
    options.request = {testkit::sgd(*network, 0.9), {"slow"}};
    const auto replica = device.compile(*network, options);
    replica->start();
    StepSums sums;
    for (const std::uint32_t count : {200U, 13U}) {
      const Ref<Batch> batch = testkit::make_batch(count, network->input);
      testkit::fill_at_random(*batch, 5, count);
      replica->ingest(batch, 0, count);
      replica->forward(0);
      replica->loss(testkit::cross_entropy(), count, sums);
      std::vector<Ref<Event>> filled;
      replica->backward([&](int, Ref<Event> event) { filled.push_back(std::move(event)); });
      for (std::size_t b = 0; b < filled.size(); ++b) replica->update(static_cast<int>(b), UpdateStep(), filled[b]);
      replica->lerp_into("slow", 0.5, true);
      replica->infer(batch, 0, count, {}, testkit::cross_entropy(), sums);
      replica->finish();
    }
    const auto planned = static_cast<double>(replica->memory_plan().total());
    EXPECT_NEAR(static_cast<double>(free - machine->free_memory()), planned, 0.02 * planned);
  }
}

TEST(Replica, PlansTheSumOfSeveralViewsOfAMap) {
  const auto network = testkit::network_from_text(
      "input = { channels = 3, height = 8, width = 6 }\nlayers = [ { op = \"conv\", out = 5, kernel = 3, padding = 1 } ]\n");
  CudaDevice device(std::make_shared<SimulatedMachine>());
  CompileOptions options;
  options.infer_batch = 10;
  const std::size_t without = device.compile(*network, options)->memory_plan().total();
  options.request.sums_views = true;
  const std::size_t with = device.compile(*network, options)->memory_plan().total();
  EXPECT_EQ(with - without, 10 * 8 * 6 * 8 * sizeof(float)) << "with channels in packs of eight";
}

TEST(Replica, SaysWhatIsPlannedUsedAndFreeAndWhatWouldFit) {
  const auto network = testkit::network_from_text(kNetwork);
  const auto machine = std::make_shared<SimulatedMachine>(SimulationOptions{.memory = std::size_t{1} << 20});
  CudaDevice device(machine);
  const auto message = [&](std::uint32_t batch) {
    CompileOptions options;
    options.train_batch = batch;
    const auto replica = device.compile(*network, options);
    try {
      replica->start();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string said = message(2000);
  for (const char* words :
       {"For batches of 2000, ", " are planned; of the 1.0 MiB there, 0.0 MiB are used and 1.0 MiB free: batches of about "}) {
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
  const std::string about = "batches of about ";
  const int fits = std::atoi(said.c_str() + said.find(about) + about.size());
  EXPECT_GT(fits, 5);
  EXPECT_EQ(message(static_cast<std::uint32_t>(fits * 9 / 10)), "") << "what is said to fit does not";
  EXPECT_NE(message(static_cast<std::uint32_t>(fits * 3 / 2)), "");
}

// start()'s pass leaves no trace: parameters, including statistics, are still their initial zeros, and the first step computes
// like any other.
TEST(Replica, ARehearsalChangesNoParameter) {
  const auto network = testkit::network_from_text(R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "conv", op = "conv", out = 12, kernel = 3, bias = false }, { name = "bn", op = "batch_norm" }, { op = "relu" },
  { name = "fc", op = "linear", out = 5 },
])");
  const auto machine = std::make_shared<SimulatedMachine>();
  CudaDevice device(machine);
  CompileOptions options;
  options.train_batch = options.infer_batch = 6;
  const auto replica = device.compile(*network, options);
  replica->start();
  EXPECT_EQ(machine->simulation().traffic().at("compute.convolution").launches, 2U);  // for training, and for inference
  for (int p = 0; p < static_cast<int>(network->parameters.size()); ++p) {
    for (const float value : replica->read(kValue, p))
      ASSERT_EQ(value, 0) << network->parameters[static_cast<std::size_t>(p)].name;
  }
}

}  // namespace
}  // namespace millrace::cuda
