#include "testkit/stages.h"

#include <gtest/gtest.h>

#include "millrace/batch.h"
#include "testkit/files.h"
#include "testkit/harness.h"

namespace millrace::testkit {
namespace {

TEST(Harness, NamesAMistakeInTheTable) {
  const Error error = testkit::error_of([&] {
    Harness harness(StageTypeAccess::make<Paint>(), table({{"sise", Value(std::int64_t{4})}}));
  });
  EXPECT_NE(std::string(error.what()).find("sise"), std::string::npos) << error.what();
}

TEST(Harness, CollectsWhatComesOutByPort) {
  Harness harness(StageTypeAccess::make<CountingBatcher>(), table({{"size", Value(std::int64_t{2})}}));
  const Ref<Batch> batch = make_batch(2, {2, 2, 3});
  batch->samples[1].fault = SampleFault{"paint", "is bad"};
  harness.feed(whole(batch));
  EXPECT_EQ(harness.take(0).size(), 0U);
  const std::vector<Packet> retries = harness.take(1);
  ASSERT_EQ(retries.size(), 1U);
  EXPECT_EQ(retries[0].begin, 1U);
  EXPECT_EQ(retries[0].count, 1U);
  ASSERT_EQ(harness.run().bad_samples().size(), 1U);
  EXPECT_EQ(harness.run().bad_samples()[0].cause, "is bad");

  batch->samples[1].fault.reset();
  harness.feed(retries[0]);
  EXPECT_EQ(harness.take(0).size(), 1U);
  EXPECT_EQ(batch->weight, 2.0);
}

TEST(SampleTransform, SkipsSamplesThatAreBadAlready) {
  Harness harness(StageTypeAccess::make<Paint>());
  const Ref<Batch> batch = make_batch(2, {4, 4, 3});
  batch->samples[0].fault = SampleFault{"read", "is bad"};
  harness.feed(whole(batch));
  EXPECT_EQ(batch->samples[0].hash, 0U);
  EXPECT_NE(batch->samples[1].hash, 0U);
  EXPECT_EQ(harness.take().size(), 1U);
}

TEST(SampleTransform, MarksASampleWhoseContentIsBadAndGoesOn) {
  StepContext context;
  context.name = "colour";
  Harness harness(StageTypeAccess::make<Paint>(), table({{"bad", Value(1.0)}}), context);
  const Ref<Batch> batch = make_batch(2, {4, 4, 3});
  harness.feed(whole(batch));
  for (const Sample& sample : batch->samples) {
    ASSERT_TRUE(sample.fault.has_value());
    EXPECT_EQ(sample.fault->stage, "colour");
    EXPECT_EQ(sample.fault->cause, "cannot be painted");
  }
  EXPECT_EQ(harness.take().size(), 1U);
}

TEST(Fault, FailsAtThePacketAndWithTheKindItWasGiven) {
  Harness harness(StageTypeAccess::make<Fault>(),
                  table({{"at", Value(std::int64_t{1})}, {"kind", Value(std::string("storage"))}}));
  const Ref<Batch> batch = make_batch(1, {4, 4, 3});
  harness.feed(whole(batch));
  try {
    harness.feed(whole(batch));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::storage);
  }
  harness.feed(whole(batch));
  EXPECT_EQ(harness.take().size(), 2U);
}

TEST(Turnstile, KeepsPacketsInOrderUntilReleased) {
  Harness harness(StageTypeAccess::make<Turnstile>());
  const Ref<Batch> batch = make_batch(3, {4, 4, 3});
  for (std::uint32_t slot = 0; slot < 3; ++slot) harness.feed(chunk(batch, slot, 1));
  EXPECT_EQ(harness.output().holds(), 3);
  EXPECT_EQ(harness.take().size(), 0U);
  harness.as<Turnstile>().release(2);
  const std::vector<Packet> released = harness.take();
  ASSERT_EQ(released.size(), 2U);
  EXPECT_EQ(released[0].begin, 0U);
  EXPECT_EQ(released[1].begin, 1U);
  EXPECT_EQ(harness.output().holds(), 1);
}

}  // namespace
}  // namespace millrace::testkit
