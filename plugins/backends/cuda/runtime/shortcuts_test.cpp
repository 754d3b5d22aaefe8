// Savings of shortcuts, that they change no result beyond rounding, and the trial of recordings.
#include "shortcuts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "backend.h"
#include "millrace/error.h"
#include "simulation/simulated_machine.h"
#include "testkit/files.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/messages.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"

namespace millrace::cuda::shortcuts_test {
namespace {

// Sets the variable while it lives.
class Without {
 public:
  explicit Without(const std::string& names) { setenv("MILLRACE_CUDA_WITHOUT", names.c_str(), 1); }
  ~Without() { unsetenv("MILLRACE_CUDA_WITHOUT"); }
};

TEST(Shortcuts, AreSwitchedOffByName) {
  {
    const Without none("");
    EXPECT_EQ(Shortcuts::from_environment(), Shortcuts());
  }
  const Without names("sign_bits,,last_block,");
  Shortcuts expected;
  expected.sign_bits = expected.last_block = false;
  EXPECT_EQ(Shortcuts::from_environment(), expected);
}

TEST(Shortcuts, RefuseANameThatIsNone) {
  const Without names("accumulate,sign_bit");
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { Shortcuts::from_environment(); }).what());
}

TEST(RecordingsTrial, IsMadeOnceOnADevice) {
  const auto simulation = std::make_shared<Simulation>(SimulationOptions{});
  SimulatedMachine first(simulation, 0), second(simulation, 0), other(simulation, 1);
  EXPECT_TRUE(recordings_work(first));
  const std::uint64_t work = simulation->count(Count::operations);
  EXPECT_TRUE(recordings_work(second));
  EXPECT_EQ(simulation->count(Count::operations), work);
  EXPECT_TRUE(recordings_work(other));
  EXPECT_GT(simulation->count(Count::operations), work);
  EXPECT_TRUE(first.violations().empty()) << describe(first.violations().front());
}

TEST(RecordingsTrial, OfALostDeviceEndsWithAnError) {
  SimulatedMachine machine({.fail_operation = 3});
  EXPECT_THROW(recordings_work(machine), Error);
}

// ---- Whole steps ----

constexpr std::uint32_t kBatch = 5;

// The stem and blocks of ResNet-50: with a projection, and without; and one with GELU.
constexpr const char* kBlocks = R"(
input = { channels = 3, height = 14, width = 16 }
layers = [
  { name = "stem", op = "conv", out = 12, kernel = 3, padding = 1, bias = false }, { op = "batch_norm" }, { op = "relu" },
  { name = "x0", op = "max_pool", kernel = 3, stride = 2, padding = 1 },
  { name = "c1", op = "conv", from = "x0", out = 16, kernel = 3, padding = 1, bias = false }, { name = "b1", op = "batch_norm" },
  { name = "p", op = "conv", from = "x0", out = 16, kernel = 1, bias = false }, { name = "bp", op = "batch_norm" },
  { op = "add", from = ["b1", "bp"] }, { name = "x1", op = "relu" },
  { name = "c2", op = "conv", from = "x1", out = 16, kernel = 3, padding = 1, bias = false }, { name = "b2", op = "batch_norm" },
  { op = "add", from = ["b2", "x1"] }, { name = "x2", op = "relu" },
  { name = "c3", op = "conv", from = "x2", out = 16, kernel = 3, padding = 1, bias = false }, { name = "b3", op = "batch_norm" },
  { op = "add", from = ["b3", "x2"] }, { name = "x3", op = "gelu" },
  { name = "c4", op = "conv", from = "x3", out = 16, kernel = 3, padding = 1, bias = false }, { name = "b4", op = "batch_norm" },
  { op = "add", from = ["b4", "x3"] }, { op = "relu" }, { op = "global_average_pool" },
  { name = "fc", op = "linear", out = 5 },
])";

struct Outcome {
  std::vector<std::vector<float>> values, gradients;
  std::string violations;
};

Outcome train(const std::string& without, Precision precision, bool accumulates = true, bool recompute = false) {
  const Without names(without);
  const auto network = testkit::network_from_text(kBlocks);
  const auto machine = std::make_shared<SimulatedMachine>(SimulationOptions{.accumulates = accumulates});
  CudaDevice device(machine);
  CompileOptions options;
  options.train_batch = kBatch;
  options.precision = precision;
  options.recompute = recompute;
  Outcome outcome;
  {
    const auto replica = device.compile(*network, options);
    replica->start();
    testkit::randomise(*network, *replica, 3);
    const Ref<Batch> batch = testkit::make_batch(kBatch, network->input);
    testkit::fill_at_random(*batch, 5, 1);
    StepSums sums;
    for (std::uint64_t step = 0; step < 2; ++step) {
      replica->ingest(batch, 0, kBatch);
      replica->forward(step);
      replica->loss(testkit::cross_entropy(), kBatch, sums);
      replica->backward([](int, const Ref<Event>&) {});
      replica->finish();
    }
    for (int p = 0; p < static_cast<int>(network->parameters.size()); ++p) {
      outcome.values.push_back(replica->read(kValue, p));  // including statistics
      if (network->parameters[static_cast<std::size_t>(p)].trainable) outcome.gradients.push_back(replica->read(kGradient, p));
    }
  }
  for (const testkit::Violation& violation : machine->violations()) outcome.violations += describe(violation) + "\n";
  return outcome;
}

double distance(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double square = 0, norm = 0;
  for (std::size_t p = 0; p < b.size(); ++p) {
    for (std::size_t i = 0; i < b[p].size(); ++i) {
      const double x = static_cast<double>(a[p][i]), y = static_cast<double>(b[p][i]);
      square += (x - y) * (x - y);
      norm += y * y;
    }
  }
  return std::sqrt(square / norm);
}

class ShortcutsInEveryPrecision : public testing::TestWithParam<std::tuple<Precision, bool>> {
 protected:
  static Outcome trained(const std::string& without, bool accumulates = true) {
    return train(without, std::get<0>(GetParam()), accumulates, std::get<1>(GetParam()));
  }
};

TEST_P(ShortcutsInEveryPrecision, ThatMoveLessGiveTheSameBits) {
  const Outcome plain = trained("accumulate,sign_bits,last_block,norm_pool,recordings");
  for (const char* without : {"accumulate,sign_bits,last_block,norm_pool", "accumulate,last_block,norm_pool",
                              "accumulate,sign_bits,last_block", "accumulate,last_block"}) {
    const Outcome other = trained(without);
    EXPECT_EQ(other.violations, "") << without;
    EXPECT_EQ(other.gradients, plain.gradients) << without;
    EXPECT_EQ(other.values, plain.values) << without;
  }
}

TEST_P(ShortcutsInEveryPrecision, ThatAddInAnotherOrderGiveTheSameButForRounding) {
  const Outcome plain = trained("accumulate,sign_bits,last_block,norm_pool");
  const double rounding = std::get<0>(GetParam()) == Precision::bf16 ? 1e-2 : 1e-6;
  for (const char* without : {"", "accumulate", "last_block"}) {
    const Outcome other = trained(without);
    EXPECT_EQ(other.violations, "") << without;
    EXPECT_LT(distance(other.gradients, plain.gradients), rounding) << without;
    EXPECT_LT(distance(other.values, plain.values), rounding) << without;
  }
}

TEST_P(ShortcutsInEveryPrecision, ALibraryThatCannotAddIsDoneWithout) {
  const Outcome refused = trained("", false), off = trained("accumulate");
  EXPECT_EQ(refused.violations, "");
  EXPECT_EQ(refused.gradients, off.gradients);
}

INSTANTIATE_TEST_SUITE_P(All, ShortcutsInEveryPrecision,
                         testing::Combine(testing::Values(Precision::fp32, Precision::bf16), testing::Bool()),
                         [](const auto& tested) {
                           return std::string(to_string(std::get<0>(tested.param))) +
                                  (std::get<1>(tested.param) ? "_recomputed" : "");
                         });

// ---- Recordings ----

// The trial's reader comes early, which the simulation reports; the steps after it are in order.
TEST(RecordingTrial, TurnsRecordingsOffWhoseMarksDoNotHoldAndWarns) {
  const auto network = testkit::network_from_text(kBlocks);
  const auto machine = std::make_shared<SimulatedMachine>(
      SimulationOptions{.longest_delay = std::chrono::microseconds(400), .delay_one_in = 1, .sets_recorded_marks = false});
  std::vector<std::string> warnings;
  machine->set_warn([&](std::string_view message) { warnings.emplace_back(message); });
  CudaDevice device(machine);
  CompileOptions options;
  options.train_batch = kBatch;
  options.request.update = testkit::sgd(*network, 0.9, 1e-4);
  const auto replica = device.compile(*network, options);
  ASSERT_EQ(warnings.size(), 1U) << testing::PrintToString(warnings);
  EXPECT_TRUE(warnings[0].starts_with("simulated: recordings are off, and steps are submitted kernel by kernel: "))
      << warnings[0];
  EXPECT_NE(warnings[0].find(" that waited for the mark of launch "), std::string::npos) << warnings[0];
  replica->start();
  const Ref<Batch> batch = testkit::make_batch(kBatch, network->input);
  testkit::fill_at_random(*batch, 5, 1);
  StepSums sums;
  for (std::uint64_t step = 0; step < 3; ++step) {
    replica->ingest(batch, 0, kBatch);
    replica->forward(step);
    replica->loss(testkit::cross_entropy(), kBatch, sums);
    std::vector<Ref<Event>> filled;
    replica->backward([&](int, Ref<Event> event) { filled.push_back(std::move(event)); });
    for (std::size_t b = 0; b < filled.size(); ++b) replica->update(static_cast<int>(b), {{}, step}, filled[b]);
  }
  replica->finish();
  for (const testkit::Violation& violation : machine->violations()) {
    EXPECT_TRUE(violation.operation.name.starts_with("reader of a trial.")) << describe(violation);
  }
  EXPECT_FALSE(machine->violations().empty());
}

// ---- Savings ----

Traffic step_of_resnet50(const std::string& without, bool accumulates = true) {
  const Without names(without);
  const auto network = testkit::network_from_file(MILLRACE_SOURCE_DIR "/pipelines/networks/resnet50.toml");
  const auto machine = std::make_shared<SimulatedMachine>(SimulationOptions{.longest_delay = std::chrono::microseconds(0),
                                                                            .memory = std::size_t{64} << 30,
                                                                            .accumulates = accumulates,
                                                                            .computes = false});
  CudaDevice device(machine);
  CompileOptions options;
  options.train_batch = 256;
  options.precision = Precision::bf16;
  options.request.update = testkit::sgd(*network, 0.9, 1e-4);
  const auto replica = device.compile(*network, options);
  replica->start();
  const Ref<Batch> batch = testkit::make_batch(256, network->input);
  for (std::uint32_t slot = 0; slot < 256; ++slot) batch->labels[slot] = 0;
  StepSums sums;
  for (std::uint64_t step = 0; step < 2; ++step) {  // the first contains the one-time work
    machine->simulation().forget_traffic();
    replica->ingest(batch, 0, 256);
    replica->forward(step);
    replica->loss(testkit::cross_entropy(), 256, sums);
    std::vector<Ref<Event>> filled;
    replica->backward([&](int, Ref<Event> event) { filled.push_back(std::move(event)); });
    UpdateStep update;
    update.step = step;
    for (std::size_t b = 0; b < filled.size(); ++b) replica->update(static_cast<int>(b), update, filled[b]);
    replica->finish();
  }
  EXPECT_TRUE(machine->violations().empty()) << describe(machine->violations().front());
  Traffic all;
  for (const auto& [name, traffic] : machine->simulation().traffic()) {
    all.launches += traffic.launches;
    all.bytes += traffic.bytes;
  }
  return all;
}

TEST(Shortcuts, SaveNineGigabytesAndAHundredLaunchesOfAStepOfResNet50) {
  const Traffic before = step_of_resnet50("accumulate,sign_bits,last_block,norm_pool"), all = step_of_resnet50("");
  const auto say = [&](const std::string& what, const Traffic& traffic) {
    RecordProperty(what, fmt::format("{:.2f} GB, {} launches", static_cast<double>(traffic.bytes) / 1e9, traffic.launches));
    return traffic;
  };
  say("before", before);
  say("all", all);
  EXPECT_LE(all.bytes + 9'500'000'000, before.bytes);
  EXPECT_LE(all.launches + 100, before.launches);
  // Where the library does not add, a kernel of ours does, which reads and writes both gradients again.
  EXPECT_GT(say("accumulate refused", step_of_resnet50("", false)).bytes, all.bytes + 5'000'000'000);
  EXPECT_GT(say("sign_bits refused", step_of_resnet50("sign_bits")).bytes, all.bytes + 2'000'000'000);
  EXPECT_GT(say("norm_pool refused", step_of_resnet50("norm_pool")).bytes, all.bytes + 1'600'000'000);
  EXPECT_GE(say("last_block refused", step_of_resnet50("last_block")).launches, all.launches + 100);
}

}  // namespace
}  // namespace millrace::cuda::shortcuts_test
