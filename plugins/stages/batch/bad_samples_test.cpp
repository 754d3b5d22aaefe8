// Handling of bad samples, and of a run with too many.
#include "batch_fixture.h"

#include "testkit/messages.h"

#include "testkit/files.h"

namespace millrace {
namespace {

TEST_F(BatchTest, KeepsItsSizeWhenASampleIsBad) {
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  spoil(*batch, 6);
  feed(stage, testkit::whole(batch));
  EXPECT_TRUE(output_.take(0).empty());
  const auto retries = output_.take(1);
  ASSERT_EQ(retries.size(), 1U);
  EXPECT_EQ(retries[0].begin, 6U);
  EXPECT_EQ(retries[0].count, 1U);
  EXPECT_EQ(retries[0].payload.get(), batch.get());
  EXPECT_EQ(retries[0].sequence, batch->step);
  ASSERT_EQ(run_.bad_samples().size(), 1U);
  EXPECT_EQ(run_.bad_samples()[0].url, "image 6");
  EXPECT_EQ(run_.bad_samples()[0].cause, "truncated");
  EXPECT_EQ(run_.bad_samples()[0].action, "replaced");

  batch->samples[6].reset({0, 6, 42, 1}, {batch->change_pixels() + 6 * 4, kShape});  // same as the source
  fill(*batch, 6, 99);
  feed(stage, testkit::chunk(batch, 6, 1));
  EXPECT_EQ(output_.take(0).size(), 1U);
  EXPECT_EQ(batch->weight, 8);
  EXPECT_EQ(batch->pixels[6 * 4], 99);
}

TEST_F(BatchTest, GivesUpAfterManyBadReplacements) {
  params_.bad_sample_budget = 1000;
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  batch->samples[0].key.attempt = BatchSamples::kMaxAttempts - 1;
  spoil(*batch, 0);
  const Error error = error_of(stage, batch);
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_NE(error.message().find("16 samples in a row"), std::string::npos);
}

TEST_F(BatchTest, SkippingLeavesASlotOfNoWeight) {
  params_.bad_samples = "skip";
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  spoil(*batch, 1);
  batch->samples[1].label = 123;
  feed(stage, testkit::whole(batch));
  EXPECT_EQ(output_.take(0).size(), 1U);
  EXPECT_TRUE(output_.take(1).empty());
  EXPECT_EQ(batch->weight, 7);
  EXPECT_EQ(batch->weights[1], 0);
  EXPECT_EQ(batch->labels[1], 0);
  EXPECT_EQ(batch->pixels[4], 0);
  EXPECT_EQ(run_.bad_samples()[0].action, "skipped");
}

TEST_F(BatchTest, FailingNamesSampleAndCause) {
  params_.bad_samples = "fail";
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  spoil(*batch, 1);
  const Error error = error_of(stage, batch);
  EXPECT_EQ(error.kind(), ErrorKind::content);
  EXPECT_MESSAGE(error.what());
}

TEST_F(BatchTest, TheBudgetOfBadSamplesEndsTheRun) {
  params_.bad_samples = "skip";
  params_.bad_sample_budget = 3;
  BatchSamples stage(params_, context_);
  const auto first = filled();
  for (const std::uint32_t slot : {0U, 1U, 2U}) spoil(*first, slot);
  feed(stage, testkit::whole(first));
  const auto next_epoch = filled();  // counts again
  for (Sample& sample : next_epoch->samples) sample.key.epoch = 1;
  for (const std::uint32_t slot : {0U, 1U, 2U}) spoil(*next_epoch, slot);
  feed(stage, testkit::whole(next_epoch));
  const auto too_many = filled();
  for (Sample& sample : too_many->samples) sample.key.epoch = 1;
  spoil(*too_many, 4);
  const Error error = error_of(stage, too_many);
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_NE(error.message().find("4 bad samples in epoch 2 are more than `bad_sample_budget` allows (3)"), std::string::npos);
  EXPECT_NE(error.message().find("'image 4': truncated"), std::string::npos);
}

TEST_F(BatchTest, OneBadSampleIsMoreThanNone) {
  run_.set_folder("runs/a");
  params_.bad_sample_budget = 0;
  BatchSamples stage(params_, context_);
  const auto batch = filled();
  spoil(*batch, 4);
  EXPECT_MESSAGE(error_of(stage, batch).message());
  run_.set_folder({});
  EXPECT_MESSAGE(error_of(stage, batch).message());
}

class Rehearsed : public testkit::RecordedRun {
 public:
  bool is_dry_run() const override { return on; }
  bool on = true;
};

TEST_F(BatchTest, ARehearsalHasABudgetOfItsOwn) {
  Rehearsed run;
  context_.run = &run;
  params_.bad_samples = "skip";
  params_.bad_sample_budget = 2;
  BatchSamples stage(params_, context_);
  const auto spoilt = [&](std::initializer_list<std::uint32_t> slots) {
    const auto batch = filled();
    for (const std::uint32_t slot : slots) spoil(*batch, slot);
    return batch;
  };
  feed(stage, testkit::whole(spoilt({0, 1})));
  EXPECT_EQ(stage.save(), "");
  run.on = false;
  feed(stage, testkit::whole(spoilt({2, 3})));
  EXPECT_EQ(stage.save(), "0 2 2 0 3 0");
  EXPECT_EQ(error_of(stage, spoilt({4})).kind(), ErrorKind::data);

  run.on = true;
  feed(stage, testkit::whole(spoilt({0, 1})));
  EXPECT_MESSAGE(error_of(stage, spoilt({5})).message());
}

// Every pass of a validation has epoch 0.
TEST_F(BatchTest, TheBudgetIsOfEachPass) {
  params_.bad_samples = "skip";
  params_.bad_sample_budget = 2;
  BatchSamples stage(params_, context_);
  for (std::uint64_t pass = 0; pass < 3; ++pass) {
    const auto batch = filled();
    batch->pass = pass;
    for (const std::uint32_t slot : {0U, 1U}) spoil(*batch, slot);
    feed(stage, testkit::whole(batch));
  }
  const auto too_many = filled();
  too_many->pass = 2;
  spoil(*too_many, 2);
  EXPECT_EQ(error_of(stage, too_many).kind(), ErrorKind::data);
}

// At the checkpoint the batch of slots 0 to 2 is complete, and slot 4 was read ahead.
TEST_F(BatchTest, TheBudgetCountsEachBadSampleOnceWhenARunGoesOn) {
  params_.bad_samples = "skip";
  params_.bad_sample_budget = 4;
  std::string saved;
  {
    BatchSamples stopped(params_, context_);
    EXPECT_EQ(stopped.save(), "");
    const auto batch = filled();
    for (const std::uint32_t slot : {0U, 1U, 2U, 4U}) spoil(*batch, slot);
    feed(stopped, testkit::whole(batch));
    saved = stopped.save();
    EXPECT_EQ(saved, "0 4 0 0 1 0 2 0 4 0");
  }
  BatchSamples resumed(params_, context_);
  resumed.restore(saved);
  EXPECT_EQ(resumed.save(), saved);
  const auto again = filled();
  spoil(*again, 4);
  feed(resumed, testkit::whole(again));
  EXPECT_EQ(resumed.save(), saved);
  const auto too_many = filled();
  spoil(*too_many, 5);
  EXPECT_EQ(error_of(resumed, too_many).kind(), ErrorKind::data);
}

// Each rank reads its part of an epoch, and a resumed run may have other parts.
TEST_F(BatchTest, TheBudgetIsOneForAllRanks) {
  params_.bad_samples = "skip";
  params_.bad_sample_budget = 3;
  BatchSamples first(params_, context_), second(params_, context_);
  const auto spoilt = [&](std::initializer_list<std::uint32_t> slots) {
    const auto batch = filled();
    for (const std::uint32_t slot : slots) spoil(*batch, slot);
    return batch;
  };
  feed(first, testkit::whole(spoilt({0, 1})));
  feed(second, testkit::whole(spoilt({2})));
  for (BatchSamples* rank : {&second, &first}) {
    const std::string found = rank->take_found();
    EXPECT_EQ(rank->take_found(), "") << "it was taken";
    for (BatchSamples* each : {&first, &second}) each->count_found(found);
  }
  EXPECT_EQ(first.save(), "0 3 0 0 1 0 2 0");
  EXPECT_EQ(second.save(), first.save());

  BatchSamples resumed(params_, context_);
  resumed.restore(first.save());
  feed(resumed, testkit::whole(spoilt({2})));
  EXPECT_EQ(resumed.take_found(), "") << "all know it from the checkpoint";

  BatchSamples other(params_, context_);
  feed(other, testkit::whole(spoilt({4})));
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::data, [&] { second.count_found(other.take_found()); }).message());
  EXPECT_EQ(error_of(first, spoilt({5})).kind(), ErrorKind::data) << "those of all count against its own too";
}

TEST_F(BatchTest, RefusesABrokenStateByName) {
  BatchSamples stage(params_, context_);
  for (const char* text : {"x", "0", "0 1", "0 1 7", "0 1 7 0 x"}) {
    const Error error = testkit::error_of([&] { stage.restore(text); });
    EXPECT_EQ(error.message(), fmt::format("bad samples of epochs cannot be '{}'", text));
  }
}

TEST_F(BatchTest, AFractionOfTheEpochIsABudgetToo) {
  params_.size = 16;
  params_.bad_samples = "skip";
  params_.bad_sample_budget = 0.01;  // one of 100 samples, but ten are always allowed
  BatchSamples few(params_, context_);
  const auto batch = filled(16, 16);
  for (std::uint32_t slot = 0; slot < 10; ++slot) spoil(*batch, slot);
  feed(few, testkit::whole(batch));
  const auto one_more = filled(16, 16);
  spoil(*one_more, 10);
  EXPECT_EQ(error_of(few, one_more).kind(), ErrorKind::data);

  params_.bad_sample_budget = 0.12;
  BatchSamples more(params_, context_);
  const auto again = filled(16, 16);
  for (std::uint32_t slot = 0; slot < 12; ++slot) spoil(*again, slot);
  feed(more, testkit::whole(again));
}

}  // namespace
}  // namespace millrace
