#include "batch_fixture.h"

#include <thread>

#include "millrace/util/batch_input.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST_F(BatchTest, RefusesPixelsThatDifferFromThoseThatDevicesKeep) {
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  batch->resident_set = 0;
  for (Sample& sample : batch->samples) sample.set_resident();
  spoil(*batch, 2);
  batch->samples[5].change_pixels();  // by which a stage could have changed them
  const Error error = error_of(stage, batch);
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_MESSAGE(error.message());
}

TEST_F(BatchTest, EachSampleComesOnceWhereItIsPredicted) {
  EXPECT_EQ(BatchSamples(params_, context_).spec().last, BatchSpec::Last::drop);
  context_.predicts = true;
  BatchSamples stage(params_, context_);
  EXPECT_EQ(stage.spec().last, BatchSpec::Last::keep);
  const auto batch = filled();
  spoil(*batch, 2);
  feed(stage, testkit::whole(batch));
  EXPECT_EQ(batch->weights[2], 0);
  EXPECT_EQ(batch->weight, 7);
  EXPECT_TRUE(output_.take(1).empty()) << "none is read again";
  params_.last = "wrap";
  EXPECT_EQ(mistake(), "last = \"wrap\": each image is predicted once; set last = \"keep\"");
  params_.last = "keep";
  params_.bad_samples = "replace";
  EXPECT_EQ(mistake(), "bad_samples = \"replace\": each image is predicted once; set \"skip\" or \"fail\"");
}

TEST_F(BatchTest, FillingABatchLeavesItResident) {
  params_.bad_samples = "skip";
  BatchSamples stage(params_, context_);
  const auto batch = filled(8, 6);
  batch->resident_set = 3;
  for (Sample& sample : batch->samples) sample.set_resident();
  spoil(*batch, 2);
  feed(stage, testkit::chunk(batch, 0, 6));
  EXPECT_EQ(output_.take().size(), 1U);
  EXPECT_EQ(batch->resident_set, 3);
  batch->change_pixels();
  EXPECT_EQ(batch->resident_set, -1);
}

TEST_F(BatchTest, EmitsOnceWhenEverySlotHasArrived) {
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  batch->samples[3].record.flip_x(2);
  feed(stage, testkit::chunk(batch, 4, 4));
  feed(stage, testkit::chunk(batch, 0, 3));
  EXPECT_TRUE(output_.take().empty());
  feed(stage, testkit::chunk(batch, 3, 1));
  const auto packets = output_.take();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].payload.get(), batch.get());
  EXPECT_EQ(packets[0].sequence, 5U);
  EXPECT_EQ(batch->weight, 8);
  for (std::uint32_t slot = 0; slot < 8; ++slot) {
    EXPECT_EQ(batch->labels[slot], static_cast<std::int32_t>(slot));
    EXPECT_EQ(batch->pixels[slot * 4], slot + 1);
    EXPECT_EQ(batch->weights[slot], 1);
    EXPECT_EQ(batch->records[slot].step_x, slot == 3 ? -1 : 1);
  }
}

// Otherwise the slot's previous numbers would count, and with rows the next sample's.
TEST_F(BatchTest, ASampleWithOtherNumbersThanItsSourceAnnouncedIsBad) {
  params_.bad_samples = "skip";
  for (const bool rows : {false, true}) {
    BatchSamples stage(params_, context_);
    const auto batch = filled();
    std::vector<float> numbers(16, 7);
    std::vector<std::uint32_t> offsets(9);
    batch->numbers = numbers.data();
    batch->numbers_per_sample = 2;
    batch->row_offsets = rows ? offsets.data() : nullptr;
    for (Sample& sample : batch->samples) sample.numbers = {1, 2};
    batch->samples[3].numbers = {1, 2, 3};
    if (!rows) batch->samples[4].numbers = {1};
    feed(stage, testkit::whole(batch));
    EXPECT_EQ(batch->weights[3], 0);
    EXPECT_EQ(batch->weights[4], rows ? 1 : 0);
    EXPECT_EQ(batch->weight, rows ? 7 : 6);
  }
  ASSERT_EQ(run_.bad_samples().size(), 3U);
  EXPECT_MESSAGE(run_.bad_samples()[1].cause);
  EXPECT_MESSAGE(run_.bad_samples()[2].cause);
}

TEST_F(BatchTest, PutsNoiseIntoRecords) {
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  batch->samples[2].noise = 25;
  batch->samples[2].noise_seed = 7;
  feed(stage, testkit::whole(batch));
  EXPECT_EQ(batch->records[2].noise, 25);
  EXPECT_EQ(batch->records[2].noise_seed, 7U);
  EXPECT_EQ(batch->records[3].noise, 0);
  TargetSpec target;
  target.kind = TargetSpec::Kind::image;
  EXPECT_EQ(target_record(batch->records[2], target).noise, 0) << "targets stay clean";
  const std::uint64_t noisy = hash_of_input(*batch);
  batch->records[2].noise_seed = 8;
  EXPECT_NE(hash_of_input(*batch), noisy);
}

TEST_F(BatchTest, SaysOfEachSlotWhereItComesFrom) {
  params_.bad_samples = "skip";
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  for (Sample& sample : batch->samples) {
    const Image image = sample.new_image(kShape);
    sample.set_image(image, SourceMap{20, 30, AffineMap::translation(static_cast<double>(sample.key.index), 7)});
  }
  batch->samples[3].record.translate(1, 0);
  batch->samples[4].change_pixels();
  batch->samples[5].change_colours();
  batch->source_maps[6] = {1, 1, {}};  // from another step
  spoil(*batch, 6);
  feed(stage, testkit::whole(batch));
  EXPECT_EQ(seen_source(*batch, 2), (SourceMap{20, 30, AffineMap::translation(2, 7)}));
  EXPECT_EQ(seen_source(*batch, 3), (SourceMap{20, 30, AffineMap::translation(2, 7)}));
  EXPECT_FALSE(seen_source(*batch, 4).is_known());
  EXPECT_TRUE(seen_source(*batch, 5).is_known());
  EXPECT_FALSE(seen_source(*batch, 6).is_known());
  batch->change_colours();
  EXPECT_TRUE(seen_source(*batch, 5).is_known());
  batch->change_pixels();
  EXPECT_FALSE(seen_source(*batch, 5).is_known());
}

TEST_F(BatchTest, StreamHashDoesNotDependOnTheOrderOfArrival) {
  BatchSamples stage(params_, context_);
  const auto forward = filled(), backward = filled(), other = filled();
  for (std::uint32_t slot = 0; slot < 8; ++slot) feed(stage, testkit::chunk(forward, slot, 1));
  for (std::uint32_t slot = 8; slot-- > 0;) feed(stage, testkit::chunk(backward, slot, 1));
  EXPECT_EQ(forward->stream_hash, backward->stream_hash);
  std::swap(other->samples[0].hash, other->samples[1].hash);  // the same samples at other positions
  feed(stage, testkit::whole(other));
  EXPECT_NE(other->stream_hash, forward->stream_hash);
}

TEST_F(BatchTest, CountsRightlyOnManyThreads) {
  params_.size = 4096;
  BatchSamples stage(params_, context_);
  for (int round = 0; round < 20; ++round) {
    const auto batch = filled(4096, 4096);
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint32_t i = t; i < 1024; i += 4) feed(stage, testkit::chunk(batch, 4 * i, 4));
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(output_.take().size(), 1U);
    ASSERT_EQ(batch->weight, 4096);
  }
}

TEST_F(BatchTest, CopiesPixelsThatLieElsewhere) {
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  fill(*batch, 2, 77);  // the image was in the slot, so the new one is not
  ASSERT_NE(batch->samples[2].image().data, batch->pixels + 2 * 4);
  feed(stage, testkit::whole(batch));
  EXPECT_EQ(batch->pixels[2 * 4], 77);
}

TEST_F(BatchTest, AnIncompleteLastBatchHasWeightForItsSamplesAlone) {
  params_.last = "keep";
  BatchSamples stage(params_, context_);
  EXPECT_EQ(stage.spec().last, BatchSpec::Last::keep);
  const auto batch = filled(8, 5);
  for (std::uint32_t slot = 0; slot < 8; ++slot) batch->weights[slot] = 1;  // left over from an earlier step
  feed(stage, testkit::whole(batch));
  ASSERT_EQ(output_.take().size(), 1U);
  EXPECT_EQ(batch->weight, 5);
  for (std::uint32_t slot = 5; slot < 8; ++slot) EXPECT_EQ(batch->weights[slot], 0);
}

TEST_F(BatchTest, AnImageOfAnotherSizeIsABadSample) {
  params_.bad_samples = "skip";
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  batch->samples[0].set_image(batch->samples[0].new_image({3, 2, 1}));
  feed(stage, testkit::whole(batch));
  ASSERT_EQ(run_.bad_samples().size(), 1U);
  EXPECT_EQ(run_.bad_samples()[0].stage, "batch");
  EXPECT_MESSAGE(run_.bad_samples()[0].cause);
}

TEST_F(BatchTest, TakesTargetsOfTheirScaleAlone) {
  params_.bad_samples = "skip";
  params_.size = 2;
  TargetSpec target;
  target.kind = TargetSpec::Kind::image;
  target.scale = 2;
  BatchSamples stage(params_, context_);
  const auto batch = filled(2, 2);
  std::vector<std::uint8_t> targets(32);
  batch->target = target;
  batch->targets = targets.data();
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    Sample& sample = batch->samples[slot];
    const Image beside = sample.new_target({4, slot == 0 ? 4 : 2, 1});
    std::memset(beside.data, 7, beside.shape.bytes());
    sample.set_target(beside);
  }
  feed(stage, testkit::whole(batch));
  EXPECT_EQ(targets[15], 7);
  ASSERT_EQ(run_.bad_samples().size(), 1U);
  EXPECT_MESSAGE(run_.bad_samples()[0].cause);
}

TEST_F(BatchTest, RefusesTargetsThatARecordCannotPlace) {
  context_.target.kind = TargetSpec::Kind::image;
  context_.target.scale = 4;
  context_.image = {8192, 2, 1};
  EXPECT_MESSAGE(mistake());
  context_.image = {8191, 2, 1};
  EXPECT_EQ(mistake(), "nothing was thrown");
}

TEST_F(BatchTest, LargerImagesAreSeenThroughAWindowInTheirMiddle) {
  params_.size = 1;
  context_.image = {6, 5, 1};
  context_.window = {2, 2, 1};
  BatchSamples stage(params_, context_);
  const auto batch = testkit::make_batch(1, {6, 5, 1}, {2, 2, 1});
  batch->samples[0].set_image(batch->samples[0].new_image({6, 5, 1}));
  feed(stage, testkit::whole(batch));
  EXPECT_EQ(batch->records[0].y, 2);
  EXPECT_EQ(batch->records[0].x, 2);
}

TEST_F(BatchTest, RefusesImagesOfVaryingSizeAndProposesTheLinesToWrite) {
  context_.graph = "train";
  context_.image = {0, 0, 3};
  context_.window = {24, 32, 3};
  EXPECT_MESSAGE(mistake());
}

TEST_F(BatchTest, RefusesImagesThatTheNetworkCannotTake) {
  context_.window = {2, 3, 1};
  EXPECT_MESSAGE(mistake());
  context_.window = {2, 2, 3};
  EXPECT_MESSAGE(mistake());
}

TEST_F(BatchTest, LeavesTheSizeToTheRun) {
  Diagnostics errors;
  StageDescription<BatchSamples::Params> description;
  BatchSamples::describe(description);
  Value table;
  table.set("size", Value("auto"));
  const auto params = read_struct(description.params, table, "[train.batch]", errors);
  EXPECT_TRUE(errors.empty()) << errors.text();
  EXPECT_EQ(BatchSamples(params, context_).spec().size, 0U);
}

TEST_F(BatchTest, SaysHowManyBatchesCirculate) {
  params_.buffers = 2;
  const BatchSpec spec = BatchSamples(params_, context_).spec();
  EXPECT_EQ(spec.size, 8U);
  EXPECT_EQ(spec.buffers, 2U);
  EXPECT_EQ(spec.last, BatchSpec::Last::drop);
}

}  // namespace
}  // namespace millrace
