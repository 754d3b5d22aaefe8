#include "checkpoint/batch_hashes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "testkit/harness.h"

namespace millrace::batch_hashes_test {
namespace {

constexpr ImageShape kImage{2, 2, 1};

// Slots first ... first + count - 1 of a global batch of 32; slot n is filled with n.
Ref<Batch> part_of_batch(std::uint32_t first, std::uint32_t count) {
  Ref<Batch> batch = testkit::make_batch(count, kImage, kImage);
  batch->first_slot = first;
  batch->global_count = 32;
  batch->stream_hash = 100 + count;
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    std::memset(batch->change_pixels() + slot * kImage.bytes(), static_cast<int>(first + slot), kImage.bytes());
    batch->labels[slot] = static_cast<std::int32_t>(first + slot);
  }
  return batch;
}

TEST(BatchHashes, ProcessesThatShareABatchAddUpToItsHash) {
  const SavedState::BatchHash whole = hash_of(*part_of_batch(0, 32));
  const SavedState::BatchHash first = hash_of(*part_of_batch(0, 13)), second = hash_of(*part_of_batch(13, 19));
  EXPECT_EQ(whole.images, first.images + second.images);
  EXPECT_EQ(whole.stream, 132U);
  EXPECT_EQ(first.stream, 113U);
}

TEST(BatchHashes, SeeAPixelAndALabelOfSomeImages) {
  const Ref<Batch> batch = part_of_batch(0, 32);
  const SavedState::BatchHash before = hash_of(*batch);
  batch->change_pixels()[4 * kImage.bytes() + 3] ^= 1U;  // one of every fourth image
  const SavedState::BatchHash changed = hash_of(*batch);
  EXPECT_NE(changed.images, before.images);
  EXPECT_EQ(changed.stream, before.stream);
  batch->labels[4] = 9;
  EXPECT_NE(hash_of(*batch).images, changed.images);
  const SavedState::BatchHash labelled = hash_of(*batch);
  batch->change_pixels()[5 * kImage.bytes()] ^= 1U;  // not hashed, so that the time does not grow with the batch
  EXPECT_EQ(hash_of(*batch), labelled);
}

TEST(BatchHashes, LeaveOutImagesThatADeviceKeeps) {
  const Ref<Batch> batch = part_of_batch(0, 32);
  batch->resident_set = 0;
  EXPECT_EQ(hash_of(*batch), (SavedState::BatchHash{132, 0}));
}

TEST(BatchHashes, KeepTheNewestInWhateverOrderTheyCome) {
  BatchHashes hashes;
  for (std::uint64_t step = 0; step < 200; ++step) hashes.add(step ^ 1U, {step ^ 1U, 7});
  const auto last = hashes.last(180);  // the others were read ahead
  ASSERT_EQ(last.size(), BatchHashes::kMax);
  EXPECT_EQ(last.front(), (SavedState::BatchHash{180 - BatchHashes::kMax, 7}));
  EXPECT_EQ(last.back(), (SavedState::BatchHash{179, 7}));
  EXPECT_TRUE(hashes.last(0).empty());
}

TEST(BatchHashes, GoOnBehindACheckpointAndEndAtAGap) {
  BatchHashes hashes;
  hashes.restore(10, {{7, 0}, {8, 0}, {9, 0}});
  hashes.add(11, {11, 0});
  hashes.add(10, {10, 0});
  EXPECT_EQ(hashes.last(12), (std::vector<SavedState::BatchHash>{{7, 0}, {8, 0}, {9, 0}, {10, 0}, {11, 0}}));
  hashes.add(13, {13, 0});
  EXPECT_EQ(hashes.last(14), (std::vector<SavedState::BatchHash>{{13, 0}}));
}

}  // namespace
}  // namespace millrace::batch_hashes_test
