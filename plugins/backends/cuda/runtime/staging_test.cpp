// Images that stay on the device: which ones are copied, where they are found again, and that every reader waits for the copy.
#include <algorithm>

#include "simulation/simulation_fixture.h"
#include "staging.h"
#include "testkit/harness.h"

#include "testkit/messages.h"

#include "testkit/files.h"

namespace millrace::cuda {
namespace {

constexpr ImageShape kImage{2, 3, 3};
constexpr std::uint32_t kSlots = 6;
constexpr std::uint8_t kElsewhere = 0xAA;  // not in any image

// The first byte of an image identifies it.
std::uint8_t byte_of(std::uint64_t index) { return static_cast<std::uint8_t>(index + 1); }

class Resident : public SimulationTest {
 protected:
  void begin(const SimulationOptions& options = {}, std::uint64_t samples = 40) {
    staging.reset();
    start(options);
    table = floats(4 * 256, "table"), out = floats(kSlots * kImage.bytes() * kPack, "out");
    a->zero(table, 4 * 256 * sizeof(float));
    staging =
        std::make_unique<Staging>(*machine, kSlots, kImage, TargetNeeds{}, std::vector<ResidentSet>{{"train", samples, kImage}});
  }
  void TearDown() override { staging.reset(); }

  // As from `batch`: samples with these indices, their pixels in the slots.
  static Ref<Batch> batch_of(const std::vector<std::uint64_t>& indices) {
    Ref<Batch> batch = testkit::make_batch(static_cast<std::uint32_t>(indices.size()), kImage);
    std::uint8_t* const pixels = batch->change_pixels();
    for (std::uint32_t slot = 0; slot < indices.size(); ++slot) {
      batch->samples[slot].key.index = indices[slot];
      std::fill_n(pixels + slot * kImage.bytes(), kImage.bytes(), byte_of(indices[slot]));
      batch->labels[slot] = 0;
    }
    batch->resident_set = 0;
    return batch;
  }
  static Ref<Batch> without_pixels(const Ref<Batch>& batch) {
    std::fill_n(batch->change_pixels(), batch->count * kImage.bytes(), kElsewhere);
    batch->resident_set = 0;
    return batch;
  }

  // The first byte of each slot's image, as an ingest on queue `a` would read it.
  std::vector<int> load(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count) {
    const std::uint64_t before = simulation->count(Count::operations);
    staged = staging->load(*a, batch, begin, count);
    copies = simulation->count(Count::operations) - before - 1;  // one is for labels and records
    ingest(staged);
    staging->release(*a);
    machine->finish();
    std::vector<int> seen;
    for (std::uint32_t n = 0; n < count; ++n) {
      const auto image = static_cast<std::size_t>(staged.image_of == nullptr ? static_cast<std::int32_t>(n) : staged.image_of[n]);
      seen.push_back(staged.pixels[image * kImage.bytes()]);
      EXPECT_LT(image, static_cast<std::size_t>(staged.images));
    }
    return seen;
  }
  std::vector<int> load(const Ref<Batch>& batch) { return load(batch, 0, batch->count); }

  void ingest(const StagedBatch& batch) {
    Ingest<float> kernel;
    kernel.pixels = batch.pixels;
    kernel.index = batch.image_of;
    kernel.records = batch.records;
    kernel.table = table;
    kernel.out = out;
    kernel.samples = batch.images;
    kernel.count = batch.count;
    kernel.image_height = kernel.window_height = kImage.height;
    kernel.image_width = kernel.window_width = kImage.width;
    kernel.channels = kImage.channels;
    a->run(kernel);
  }

  std::unique_ptr<Staging> staging;
  StagedBatch staged;
  std::uint64_t copies = 0;  // copies of pixels in the last load()
  float *table = nullptr, *out = nullptr;
};

TEST_F(Resident, AnImageIsCopiedOnceAndSlotsInARowTogether) {
  begin();
  EXPECT_EQ(load(batch_of({7, 3, 9, 1})), (std::vector<int>{8, 4, 10, 2}));
  EXPECT_EQ(copies, 1U);
  EXPECT_EQ(load(without_pixels(batch_of({1, 7, 9, 3}))), (std::vector<int>{2, 8, 10, 4}));
  EXPECT_EQ(copies, 0U);
  EXPECT_EQ(load(batch_of({20, 21, 3, 22, 9, 23})), (std::vector<int>{21, 22, 4, 23, 10, 24}));
  EXPECT_EQ(copies, 3U);
  expect_clean();
}

TEST_F(Resident, AShareOfABatchBringsItsOwnSamplesOnly) {
  begin();
  EXPECT_EQ(load(batch_of({1, 2, 3, 4}), 2, 2), (std::vector<int>{4, 5}));
  EXPECT_EQ(load(batch_of({4, 3, 2, 1}), 0, 4), (std::vector<int>{5, 4, 3, 2}));
  EXPECT_EQ(copies, 1U);
  expect_clean();
}

TEST_F(Resident, ASampleMayComeTwiceInABatch) {
  begin();
  EXPECT_EQ(load(batch_of({5, 5, 6, 5, 6, 7})), (std::vector<int>{6, 6, 7, 6, 7, 8}));
  EXPECT_EQ(load(without_pixels(batch_of({7, 6, 5}))), (std::vector<int>{8, 7, 6}));
  expect_clean();
}

TEST_F(Resident, SlotsWithoutWeightAreBlackAndKeepNothing) {
  begin();
  const Ref<Batch> batch = batch_of({5, 6, 7});
  batch->weights[1] = 0;
  EXPECT_EQ(load(batch), (std::vector<int>{6, 0, 8}));
  EXPECT_EQ(load(batch_of({6})), (std::vector<int>{7}));
  EXPECT_EQ(copies, 1U);
  expect_clean();
}

TEST_F(Resident, PixelsThatAStageHasChangedAreReadFromTheBatch) {
  begin();
  load(batch_of({5, 6}));
  const Ref<Batch> mixed = batch_of({5, 6});
  mixed->change_pixels()[0] = 99;
  EXPECT_EQ(load(mixed), (std::vector<int>{99, 7}));
  EXPECT_EQ(staged.image_of, nullptr);
  EXPECT_EQ(load(without_pixels(batch_of({5, 6}))), (std::vector<int>{6, 7}));
  expect_clean();
}

// A step that fails between its ingest and its loss never reports that its place has been read.
TEST_F(Resident, APlaceIsNotFilledUnderItsReader) {
  begin();
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Ref<Batch> batch = batch_of({step, step + 1});
    batch->change_pixels();
    staged = staging->load(*a, batch, 0, batch->count);
    ingest(staged);
  }
  machine->finish();
  expect_clean();
}

TEST_F(Resident, MoreImagesThanTheSetHasAreAnError) {
  begin({}, 3);
  load(batch_of({5, 6, 7}));
  EXPECT_MESSAGE(testkit::error_of([&] { load(batch_of({5, 8})); }).message());
}

// Copies of later batches run while earlier ones are read, without waits between them.
TEST_F(Resident, CopiesAndReadersAreOrderedWithoutWaitingForEachOther) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    begin({.seed = seed});
    for (std::uint64_t step = 0; step < 8; ++step) {
      ingest(staging->load(*a, batch_of({step, 2 * step, 3 * step, 39 - step}), 0, 4));
      staging->release(*a);
    }
    machine->finish();
    expect_clean();
  }
}

TEST_F(Resident, AReaderThatDoesNotWaitForTheCopyIsFound) {
  const std::uint64_t waits[] = {1, 2, 4, 6};  // waits of `a`, by step: from the third on the copy also waits for its place
  for (std::uint64_t step = 0; step < std::size(waits); ++step) {
    begin({.leave_out_wait = waits[step]});
    for (std::uint64_t s = 0; s <= step; ++s) {
      ingest(staging->load(*a, batch_of({s, s + 10}), 0, 2));
      staging->release(*a);
    }
    machine->finish();
    bool found = false;
    for (const std::string& text : texts()) {
      found = found || (text.find("a.ingest") != std::string::npos && text.find("held on the device") != std::string::npos);
    }
    EXPECT_TRUE(found) << "step " << step << ": " << testing::PrintToString(texts());
  }
}

}  // namespace
}  // namespace millrace::cuda
