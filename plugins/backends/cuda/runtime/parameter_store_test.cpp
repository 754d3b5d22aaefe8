// Layout of parameters, and hidden padding.
#include "parameter_store.h"

#include <gtest/gtest.h>

#include <numeric>

#include "simulation/simulated_machine.h"
#include "testkit/networks.h"
#include "testkit/optimizers.h"

namespace millrace::cuda {
namespace {

std::vector<float> counted(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(WeightLayout, PutsChannelsLastAndZerosBehindThem) {
  const WeightLayout layout = {2, 3, 1, 2, pitch_of(2), pitch_of(3)};
  const std::vector<float> memory = to_memory(layout, counted(12));
  ASSERT_EQ(memory.size(), 8U * 2 * 8);
  // Output 1, column 1: inputs 0, 1, 2 are elements 8, 10 and 12 of (out, in, height, width), then zeros.
  const std::vector<float> row(memory.begin() + (1 * 2 + 1) * 8, memory.begin() + (1 * 2 + 2) * 8);
  EXPECT_EQ(row, (std::vector<float>{8, 10, 12, 0, 0, 0, 0, 0}));
  for (std::size_t i = 2 * 2 * 8; i < memory.size(); ++i) EXPECT_EQ(memory[i], 0.0F) << i;
}

TEST(WeightLayout, GivesBackWhatItTook) {
  for (const WeightLayout& layout : {WeightLayout{5, 3, 2, 3, 8, 8}, WeightLayout{20, 1, 3, 3, 24, 1},
                                     WeightLayout{40, 5, 3, 3, 40, 5}, WeightLayout::vector(17)}) {
    const std::vector<float> values = counted(static_cast<std::size_t>(layout.out * layout.in * layout.height * layout.width));
    EXPECT_EQ(from_memory(layout, to_memory(layout, values)), values);
  }
}

// ---- Reading and writing ----

// Parameters of 8.6 MB and of 20 bytes, and others.
struct Transfer {
  explicit Transfer(const SimulationOptions& options = {})
      : machine(options),
        queue(machine.make_queue("update")),
        network(testkit::network_from_text(R"(
input = { channels = 3, height = 32, width = 32 }
layers = [{ name = "fc", op = "linear", out = 700 }, { op = "relu" }, { name = "small", op = "linear", out = 5 }])")),
        store(*network, {.train_batch = 1, .precision = Precision::bf16, .request = {testkit::sgd(*network, 0.9), {}}}) {
    store.finish_planning(machine);
    store.start(machine);
  }
  int parameters() const { return static_cast<int>(network->parameters.size()); }
  std::size_t size(int p) const {
    return static_cast<std::size_t>(network->parameters[static_cast<std::size_t>(p)].shape.elements());
  }
  std::vector<std::size_t> pinned_bytes() {
    std::vector<std::size_t> sizes;
    for (const auto& each : machine.simulation().allocations().all()) {
      if (each->on_host()) sizes.push_back(each->bytes());
    }
    return sizes;
  }

  SimulatedMachine machine;
  std::unique_ptr<Queue> queue;
  std::shared_ptr<const Network> network;
  ParameterStore store;
};

TEST(ParameterTransfer, GoesThroughOnePinnedBufferInPieces) {
  Transfer transfer;
  for (int round = 0; round < 2; ++round) {
    for (int p = transfer.parameters() - 1; p >= 0; --p) {
      const auto values = counted(transfer.size(p));
      transfer.store.write(*transfer.queue, kValue, p, values);
      EXPECT_EQ(transfer.store.read(*transfer.queue, kValue, p), values);
      ASSERT_EQ(transfer.pinned_bytes().size(), 1U);
      EXPECT_LE(transfer.pinned_bytes().front(), std::size_t{4} << 20);
    }
  }
  EXPECT_TRUE(transfer.machine.violations().empty());
}

TEST(ParameterTransfer, LeavesItsNeighboursAlone) {
  Transfer transfer;
  transfer.store.write(*transfer.queue, "momentum", 1, counted(transfer.size(1)));
  for (const int p : {0, 2, 3}) {
    EXPECT_EQ(transfer.store.read(*transfer.queue, "momentum", p), std::vector<float>(transfer.size(p), 0.0F)) << p;
  }
  EXPECT_EQ(transfer.store.read(*transfer.queue, "momentum", 1), counted(transfer.size(1)));
}

// The buffer is reused at once. Each of these needs three pieces, the first with a bf16 mirror after it, so that the third,
// fourth and last waits are redundant.
TEST(ParameterTransfer, AWaitThatIsLeftOutIsFound) {
  const auto is_clean = [](std::uint64_t left_out) {
    Transfer transfer({.leave_out_host_wait = left_out});
    const auto values = counted(transfer.size(0));
    transfer.store.write(*transfer.queue, kValue, 0, values);
    transfer.store.read(*transfer.queue, kValue, 0);
    transfer.store.write(*transfer.queue, "momentum", 0, values);
    transfer.machine.finish();
    return transfer.machine.violations().empty();
  };
  EXPECT_TRUE(is_clean(0));
  for (const std::uint64_t wait : {1, 2, 5, 6, 7, 8, 9}) EXPECT_FALSE(is_clean(wait)) << wait;
}

// ---- Snapshots ----

TEST(Captured, StatesStayWhateverTheDeviceDoesNext) {
  Transfer transfer;
  std::vector<StateOf> asked;
  for (int p = 0; p < transfer.parameters(); ++p) {
    asked.push_back({std::string(kValue), p});
    asked.push_back({"momentum", p});
    transfer.store.write(*transfer.queue, kValue, p, counted(transfer.size(p)));
  }
  std::size_t pinned = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<float>> expected;
    for (const StateOf& each : asked) expected.push_back(transfer.store.read(*transfer.queue, each.state, each.parameter));
    const auto snapshot = transfer.store.capture(*transfer.queue, asked);
    for (int bucket = 0; bucket < static_cast<int>(transfer.store.plan().parameters.buckets().size()); ++bucket) {
      transfer.store.update(*transfer.queue, bucket, {{.learning_rate = 0.1}});
    }
    for (const StateOf& each : asked) {
      transfer.store.write(*transfer.queue, each.state, each.parameter,
                           std::vector<float>(transfer.size(each.parameter), 7.0F + static_cast<float>(round)));
    }
    for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(snapshot->take(i), expected[i]) << i;
    if (round == 0) pinned = transfer.pinned_bytes().size();
    EXPECT_EQ(transfer.pinned_bytes().size(), pinned) << "the memory is used again";
  }
  EXPECT_TRUE(transfer.machine.violations().empty());
}

TEST(Captured, AnEarlierSnapshotKeepsItsMemory) {
  Transfer transfer;
  const std::vector<StateOf> asked = {{std::string(kValue), 0}};
  const auto first = transfer.store.capture(*transfer.queue, asked);
  transfer.store.write(*transfer.queue, kValue, 0, counted(transfer.size(0)));
  const auto second = transfer.store.capture(*transfer.queue, asked);
  EXPECT_EQ(first->take(0), std::vector<float>(transfer.size(0), 0.0F));
  EXPECT_EQ(second->take(0), counted(transfer.size(0)));
  EXPECT_TRUE(transfer.machine.violations().empty());
}

TEST(Captured, StatesThatCannotBePinnedAtOnceAreReadInPiecesAndThatIsWarnedOfOnce) {
  Transfer transfer({.pinned = std::size_t{5} << 20});  // a piece of 4 MiB, and not all 8.6 MB
  std::vector<std::string> warnings;
  transfer.machine.set_warn([&](std::string_view message) { warnings.emplace_back(message); });
  const std::vector<StateOf> asked = {{std::string(kValue), 0}, {"momentum", 1}};
  for (const float value : {3.0F, 4.0F}) {
    const std::vector<float> values(transfer.size(0), value);
    transfer.store.write(*transfer.queue, kValue, 0, values);
    const auto snapshot = transfer.store.capture(*transfer.queue, asked);
    transfer.store.write(*transfer.queue, kValue, 0, std::vector<float>(transfer.size(0), 9.0F));
    EXPECT_EQ(snapshot->take(0), values);
    EXPECT_EQ(snapshot->take(1), std::vector<float>(transfer.size(1), 0.0F));
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].find("cuda:0: checkpoints need 8."), 0U) << warnings[0];
  EXPECT_NE(warnings[0].find(" MiB of pinned memory, which cannot be had ("), std::string::npos) << warnings[0];
  EXPECT_TRUE(transfer.machine.violations().empty());
}

// Reading before the copy is there.
TEST(Captured, AWaitThatIsLeftOutIsFound) {
  const auto is_clean = [](std::uint64_t left_out) {
    Transfer transfer({.leave_out_host_wait = left_out});
    const std::vector<StateOf> asked = {{std::string(kValue), 0}};
    transfer.store.capture(*transfer.queue, asked)->take(0);
    transfer.machine.finish();
    return transfer.machine.violations().empty();
  };
  EXPECT_TRUE(is_clean(0));
  EXPECT_FALSE(is_clean(1));
}

}  // namespace
}  // namespace millrace::cuda
