// Rows of numbers: each sample of a batch has any number of rows.
#include <gtest/gtest.h>

#include "millrace/batch.h"
#include "millrace/util/batch_input.h"
#include "millrace/util/batcher.h"
#include "testkit/harness.h"

namespace millrace {
namespace {

TEST(Rows, AreGatheredInOrderOfSlotsAndNoneOfASampleWithoutWeight) {
  const Ref<Batch> batch = testkit::make_batch(6, {2, 2, 1});
  batch->count = 4;
  std::vector<std::uint32_t> offsets(7, 77);
  batch->numbers_per_sample = 2;
  batch->row_offsets = offsets.data();
  batch->samples[0].numbers = {1, 2, 3, 4};
  batch->samples[1].numbers = {5, 6};
  batch->samples[3].numbers = {7, 8};
  batch->samples[5].numbers = {9, 9};  // from the previous batch
  batch->weights[1] = 0;
  gather_rows(*batch);
  EXPECT_EQ(offsets, (std::vector<std::uint32_t>{0, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(std::vector<float>(batch->numbers, batch->numbers + 6), (std::vector<float>{1, 2, 3, 4, 7, 8}));
  const std::uint64_t hash = hash_of_input(*batch);
  batch->numbers[5] = 9;
  EXPECT_NE(hash_of_input(*batch), hash);
}

}  // namespace
}  // namespace millrace
