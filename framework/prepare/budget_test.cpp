#include "prepare/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "testkit/messages.h"
#include "util/memory_limit.h"

namespace millrace {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A network with one large and one small parameter: 4 MiB and 4 KiB.
Network small_network() {
  Network network;
  network.layers.resize(2);
  network.parameters.resize(2);
  network.parameters[0].shape = {1024, 1024};
  network.parameters[1].shape = {1024};
  return network;
}

MemoryNeeds needs_of(const Network& network, bool on_device) {
  MemoryNeeds needs{.threads = 10, .network = &network};
  needs.graphs.push_back({.name = "train",
                          .stages = {{"read", 0}, {"cache", 7 * kMiB}},
                          .slot_bytes = 100,
                          .slots = 32,
                          .batch_size = 64,
                          .buffers = 3});
  needs.replicas.push_back({"fast:0", {{{"weights", 5 * kMiB, on_device}}}, 2});
  return needs;
}

std::string budget_text(const std::vector<MemoryItem>& items) {
  std::string all;
  for (const MemoryItem& item : items)
    all += item.where + ": " + item.what + " " + std::to_string(item.bytes) + item.device + "\n";
  return all;
}

std::size_t bytes_with(const std::vector<MemoryItem>& items, const std::string& what) {
  const auto found = std::ranges::find(items, what, &MemoryItem::what);
  return found == items.end() ? 0 : found->bytes;
}

TEST(MemoryBudget, NamesAllThatARunHolds) {
  const Network network = small_network();
  EXPECT_EQ(budget_text(memory_budget(needs_of(network, false))),
            "program: program and libraries (estimate) 134414336\n"
            "train.cache: buffers of the stage 7340032\n"
            "train: 3 circulating batches of 64 9600\n"
            "fast:0 replica 0: weights 5242880\n"
            "weights: the largest tensor, while weights are read or written 4194304\n"
            "threads: 13 threads 20447232\n");
}

TEST(MemoryBudget, IsTheProgramItsThreadsAndBatchesWithoutANetwork) {
  MemoryNeeds needs{.threads = 6};
  needs.graphs.push_back({.name = "look", .slot_bytes = 1, .slots = 8, .batch_size = 8, .buffers = 2});
  EXPECT_EQ(budget_text(memory_budget(needs)),
            "program: program and libraries (estimate) 134217728\n"
            "look: 2 circulating batches of 8 16\n"
            "threads: 6 threads 9437184\n");
}

TEST(MemoryBudget, CountsADevicesOwnMemoryApartAndItsCopiesOnTheHost) {
  const Network network = small_network();
  MemoryNeeds needs = needs_of(network, true);
  needs.weights_from_file = true;
  const auto items = memory_budget(needs);
  EXPECT_EQ(total_bytes(items, "fast:0"), 5 * kMiB);
  EXPECT_EQ(bytes_with(items, "the largest tensor, while weights are read or written"), 8 * kMiB);
  EXPECT_EQ(bytes_with(items, "weights of the file, until devices have copied them"), 4 * kMiB + 4096);
  needs.replicas.front().plan.items.front().on_device = false;  // they move into host memory, which is already counted
  EXPECT_EQ(bytes_with(memory_budget(needs), "weights of the file, until devices have copied them"), 0U);
}

TEST(MemoryBudget, CountsWhatWaitsForTheDisk) {
  const Network network = small_network();
  MemoryNeeds needs = needs_of(network, false);
  needs.keeps_best_weights = needs.keeps_best_checkpoint = true;
  EXPECT_EQ(bytes_with(memory_budget(needs), "best weights, kept if the disk is full"), 4 * kMiB + 4096);
  EXPECT_EQ(bytes_with(memory_budget(needs), "best checkpoint, kept if the disk is full"), 0U) << "the run writes none";
  needs.checkpoint_bytes = 9 * kMiB;
  EXPECT_EQ(bytes_with(memory_budget(needs), "best checkpoint, kept if the disk is full"), 9 * kMiB);
  EXPECT_EQ(bytes_with(memory_budget(needs), "copy that is being written during training"), 9 * kMiB);
  const char* const pinned = "pinned memory, into which a device copies its states";
  EXPECT_EQ(bytes_with(memory_budget(needs), pinned), 0U);
  MemoryNeeds apart = needs_of(network, true);
  apart.checkpoint_bytes = 9 * kMiB;
  EXPECT_EQ(bytes_with(memory_budget(apart), "copy that is being written during training"), 9 * kMiB);
  EXPECT_EQ(bytes_with(memory_budget(apart), pinned), 9 * kMiB);
}

TEST(MemoryLack, NamesTheLargestItemsOfTheMemoryThatIsShort) {
  const std::vector<MemoryItem> items = {{"a", "small", kMiB}, {"b", "large", 3 * kMiB}, {"c", "apart", 9 * kMiB, "fast:0"}};
  EXPECT_EQ(lack_of_memory(items, {4 * kMiB, {{"fast:0", 9 * kMiB}}}), "");
  EXPECT_MESSAGE(lack_of_memory(items, {2 * kMiB, {{"fast:0", kMiB}}}));
  EXPECT_MESSAGE(lack_of_memory(items, {4 * kMiB, {{"fast:0", 8 * kMiB}}}));
}

TEST(MemoryLack, IsAMistakeOrAWarningWhereALimitIsKnown) {
  const std::vector<MemoryItem> items = {{"program", "code", 4 * kMiB}};
  EXPECT_NO_THROW(require_possible_memory(items, 0));
  EXPECT_NO_THROW(require_possible_memory(items, total_bytes(items) / 2 + 1));
  EXPECT_THROW(require_possible_memory(items, total_bytes(items) / 4), Error);
  EXPECT_EQ(warning_of_memory(items, 0, false), "") << "the host does not say how much it has";
  EXPECT_EQ(warning_of_memory(items, 4 * kMiB, true), "");
  EXPECT_MESSAGE(warning_of_memory(items, kMiB, true));
  EXPECT_NO_THROW(require_memory(items, 0, false));
  EXPECT_THROW(require_memory(items, kMiB, false), Error);
}

TEST(MemoryLimits, AreTheFilesAndEachProcessHasItsPart) {
  EXPECT_EQ(memory_limits("4 MiB", 1, {}).host, 4 * kMiB);
  EXPECT_EQ(memory_limits("4 MiB", 2, {}).host, 2 * kMiB);
  EXPECT_EQ(warning_of_limit(""), "");
  EXPECT_EQ(warning_of_limit("1 MiB"), "");
  if (host_memory() > 0) {
    EXPECT_NE(warning_of_limit("1000000 TB"), "");
  }
}

}  // namespace
}  // namespace millrace
