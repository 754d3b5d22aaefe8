// Compares batches of a resumed run with the hashes in its checkpoint, without a graph.
#include "checkpoint/verify.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::verify_test {
namespace {

// A checkpoint after step 10 with the hashes of steps 7 to 10.
FoundCheckpoint checkpoint() {
  FoundCheckpoint from{"runs/x/checkpoints/step-000000010", {}};
  from.checkpoint.state.step = 10;
  from.checkpoint.state.batches = {{7, 70}, {8, 80}, {9, 90}, {10, 100}};
  return from;
}

// Reads the same batches as the checkpoint, except one step.
ReadBatches reading(std::uint64_t changed_step = 0, SavedState::BatchHash changed = {}) {
  return [=](std::uint64_t first, std::uint64_t last) {
    BatchHashList read;
    for (std::uint64_t step = first + 1; step <= last; ++step)
      read.push_back(step == changed_step ? changed : SavedState::BatchHash{step, 10 * step});
    return read;
  };
}

std::string mistake(const FoundCheckpoint& from, const ReadBatches& read) {
  return testkit::error_of([&] { verify_batches(from, 10, 3, read, nullptr); }).message();
}

TEST(Verify, TheSameBatchesAreSaidWithTheirNumber) {
  EXPECT_MESSAGE(verify_batches(checkpoint(), 10, 1, reading(), nullptr));
  EXPECT_MESSAGE(verify_batches(checkpoint(), 10, 20, reading(), nullptr));
}

TEST(Verify, TheFirstBatchThatDiffersIsNamedWithWhatDiffers) {
  const std::string other_samples = mistake(checkpoint(), reading(9, {1, 90})),
                    other_images = mistake(checkpoint(), reading(9, {9, 1}));
  EXPECT_MESSAGE(other_samples);
  EXPECT_MESSAGE(other_images);
  EXPECT_EQ(verify_batches(checkpoint(), 10, 1, reading(9, {1, 1}), nullptr).find("verified: "), 0U)
      << "it is not among the last";
}

TEST(Verify, ACheckpointThatCannotBeComparedWithIsSaid) {
  FoundCheckpoint without = checkpoint();
  without.checkpoint.state.batches.clear();
  EXPECT_MESSAGE(mistake(without, reading()));
  FoundCheckpoint other = checkpoint();
  other.checkpoint.state.step = 20;
  EXPECT_MESSAGE(mistake(other, reading()));
}

}  // namespace
}  // namespace millrace::verify_test
