#include "forward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "forward_backward_fixture.h"

namespace millrace {
namespace {

using testkit::Harness;

StepSums run(testkit::Replicas& replicas, const Ref<Batch>& batch, const char* test_time) {
  StepSums sums;
  for (std::size_t r = 0; r < replicas.replicas.size(); ++r) {
    Harness harness(StageTypeAccess::make<Forward>(), testkit::table({{"test_time", Value(std::string(test_time))}}),
                    replicas.context_of(static_cast<int>(r)));
    harness.feed(testkit::whole(batch));
    sums.add(static_cast<const StepResult&>(*harness.take().at(0).payload).sums.at(0));
  }
  return sums;
}

TEST(Forward, ReplicasAddUpToTheWholeBatch) {
  testkit::Replicas one(1), three(3);
  const Ref<Batch> batch = testkit::random_batch(7);
  const StepSums expected = run(one, batch, "none"), sums = run(three, batch, "none");
  EXPECT_NEAR(sums.loss(), expected.loss(), 1e-9);
  EXPECT_EQ(sums.weight(), 7);
  EXPECT_EQ(sums.at(testkit::kCorrect), expected.at(testkit::kCorrect));
  EXPECT_EQ(sums.at(testkit::kCorrect5), 7) << "of five classes";
}

TEST(Forward, NamesTheSampleWhoseLabelIsNoClass) {
  testkit::Replicas replicas(2);
  const Ref<Batch> batch = testkit::random_batch(7);
  batch->samples[6].url = "photos/6.jpg";
  const auto mistake = [&](std::int32_t label) {
    batch->labels[6] = label;
    try {
      run(replicas, batch, "none");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      return error.message();
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(mistake(5), "sample 'photos/6.jpg' has label 5: the loss takes those of the network's 5 classes, 0 to 4");
  EXPECT_EQ(mistake(-1), "sample 'photos/6.jpg' has no label: the loss takes those of the network's 5 classes, 0 to 4");
  batch->weights[6] = 0;  // it counts nowhere
  EXPECT_EQ(mistake(-1), "nothing was thrown");
}

TEST(Forward, ViewsWeighWhatTheRecipeSays) {
  for (const char* test_time : {"none", "flip", "flip_translate"}) {
    double total = 0, shifted = 0, flipped = 0;
    for (const View& view : test_time_views(test_time)) {
      total += view.weight;
      if (view.dx != 0) shifted += view.weight;
      if (view.flip_x) flipped += view.weight;
      EXPECT_EQ(view.dx, view.dy);
      EXPECT_EQ(view.border, Border::reflect);
    }
    EXPECT_DOUBLE_EQ(total, 1) << test_time;
    EXPECT_DOUBLE_EQ(shifted, std::string(test_time) == "flip_translate" ? 0.5 : 0);
    EXPECT_DOUBLE_EQ(flipped, std::string(test_time) == "none" ? 0 : 0.5);
  }
  EXPECT_EQ(test_time_views("flip_translate").size(), 6U);
}

TEST(Forward, AMirroredImageGivesTheSameWithFlip) {
  testkit::Replicas replicas(1);
  const Ref<Batch> batch = testkit::random_batch(4), mirrored = testkit::random_batch(4);
  for (std::uint32_t n = 0; n < 4; ++n) mirrored->records[n].flip_x(4);
  const double plain = run(replicas, batch, "none").loss();
  EXPECT_GT(std::abs(run(replicas, mirrored, "none").loss() - plain), 1e-3);
  EXPECT_NEAR(run(replicas, mirrored, "flip").loss(), run(replicas, batch, "flip").loss(), 1e-5);
  EXPECT_GT(std::abs(run(replicas, batch, "flip_translate").loss() - run(replicas, batch, "flip").loss()), 1e-3);
}

TEST(Forward, LetsGoOfTheTokenAtOnce) {
  testkit::Replicas replicas(1);
  Harness harness(StageTypeAccess::make<Forward>(), {}, replicas.context_of(0));
  Packet packet = testkit::whole(testkit::random_batch(2));
  const Ref<StepToken> token = make_ref<StepToken>();
  packet.token = token;
  harness.feed(std::move(packet));
  EXPECT_EQ(static_cast<const StepResult&>(*harness.take().at(0).payload).sums.at(0).weight(), 2);
  EXPECT_EQ(harness.output().holds(), 0);
}

}  // namespace
}  // namespace millrace
