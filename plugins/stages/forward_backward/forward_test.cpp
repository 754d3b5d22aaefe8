#include "forward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "forward_backward_fixture.h"
#include "testkit/files.h"
#include "testkit/messages.h"

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
  EXPECT_MESSAGE(mistake(5));
  EXPECT_MESSAGE(mistake(-1));
  batch->weights[6] = 0;  // it does not count
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

// The connected outputs: the result, the predictions.
StepContext taking(StepContext context, bool result, bool predictions) {
  context.taken = {result, predictions};
  context.batch_size = 7;
  context.steps_per_epoch = 5;  // random_batch() has the last step
  return context;
}

constexpr int kPredictions = 1;

TEST(Forward, SendsWhatTheNetworkMakesOfEachSample) {
  testkit::Replicas replicas(2);
  CompileRequest request;
  StepContext context = taking(replicas.context_of(1), true, true);
  const StageType type = StageTypeAccess::make<Forward>();
  type.request({}, context, request);
  EXPECT_EQ(request.losses.size(), 1U);
  EXPECT_EQ(request.outputs, std::vector<LayerPort>{replicas.network.result()});
  request.read(1);
  context.request = &request;
  Harness harness(type, {}, context);
  EXPECT_GT(harness.stage().memory_bound(), 0U);
  harness.stage().open();
  const Ref<Batch> batch = testkit::random_batch(7);  // the second replica has three of them
  batch->samples[4].url = "shards/1.tar";
  batch->samples[4].member = "4.jpg";
  batch->samples[4].label = 3;
  batch->weights[5] = 0;
  harness.feed(testkit::whole(batch));
  const std::vector<Packet> packets = harness.take(kPredictions);
  ASSERT_EQ(packets.size(), 1U);
  const auto& predictions = static_cast<const Predictions&>(*packets[0].payload);
  predictions.ready->wait();
  EXPECT_EQ(predictions.step, 4U);
  EXPECT_EQ(predictions.replica, 1);
  EXPECT_EQ(predictions.replicas, 2);
  EXPECT_TRUE(predictions.last);
  ASSERT_EQ(predictions.count, 3U);
  EXPECT_EQ(predictions.samples[0].key.position, 4U);
  std::string place;
  predictions.samples[0].append_place(place);
  EXPECT_EQ(place, "shards/1.tar: 4.jpg");
  EXPECT_EQ(predictions.samples[0].label, 3);
  EXPECT_TRUE(predictions.samples[0].counts);
  EXPECT_FALSE(predictions.samples[1].counts);
  ASSERT_EQ(predictions.outputs.size(), 2U);
  const std::vector<float> logits = replicas.replicas[1]->logits();
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(), predictions.result().values)) << "of the three samples";
  EXPECT_EQ(predictions.output(1).shape, (Shape{6}));
  for (const float value : predictions.output(1).row(2)) EXPECT_GE(value, 0) << "the rectified values";
  EXPECT_EQ(harness.take(0).size(), 1U);
  EXPECT_EQ(harness.output().holds(), 0);
}

class Rehearsed : public testkit::RecordedRun {
 public:
  bool is_dry_run() const override { return true; }
};

TEST(Forward, SendsNothingToWriteWhileItsGraphIsTried) {
  testkit::Replicas replicas(1);
  Rehearsed run;
  CompileRequest request;
  StepContext context = taking(replicas.context_of(0), true, true);
  context.run = &run;
  const StageType type = StageTypeAccess::make<Forward>();
  type.request({}, context, request);
  context.request = &request;
  Harness harness(type, {}, context);
  harness.stage().open();
  harness.feed(testkit::whole(testkit::random_batch(7)));
  const std::vector<Packet> packets = harness.take(kPredictions);
  ASSERT_EQ(packets.size(), 1U);
  const auto& predictions = static_cast<const Predictions&>(*packets[0].payload);
  predictions.ready->wait();
  EXPECT_EQ(predictions.count, 7U);
  EXPECT_FALSE(predictions.last);
  EXPECT_TRUE(std::ranges::none_of(predictions.samples, [](const auto& sample) { return sample.counts; }));
}

TEST(Forward, MeasuresNothingAndNeedsNoLabelsWhereNobodyTakesTheResult) {
  testkit::Replicas replicas(1);
  const StepContext context = taking(replicas.context_of(0), false, true);
  const StageType type = StageTypeAccess::make<Forward>();
  CompileRequest request;
  type.request({}, context, request);
  EXPECT_TRUE(request.losses.empty());
  Harness harness(type, {}, context);
  harness.stage().open();
  const Ref<Batch> batch = testkit::random_batch(3);
  std::fill_n(batch->labels, 3, -1);
  harness.feed(testkit::whole(batch));
  EXPECT_EQ(harness.take(0).size(), 0U);
  EXPECT_EQ(harness.take(kPredictions).size(), 1U);
}

TEST(Forward, ReadsNothingBackWhereNobodyTakesPredictions) {
  testkit::Replicas replicas(1);
  const StepContext context = taking(replicas.context_of(0), true, false);
  const StageType type = StageTypeAccess::make<Forward>();
  CompileRequest request;
  type.request({}, context, request);
  EXPECT_TRUE(request.outputs.empty());
  Harness harness(type, {}, context);
  harness.stage().open();
  EXPECT_EQ(harness.stage().memory_bound(), 0U);
  harness.feed(testkit::whole(testkit::random_batch(3)));
  EXPECT_EQ(harness.take(kPredictions).size(), 0U);
}

TEST(Forward, KeepsTheBatchWhileAStageNeedsItsImages) {
  testkit::Replicas replicas(2);
  for (const bool needed : {false, true}) {
    StepContext context = taking(replicas.context_of(1), false, true);
    CompileRequest request;
    request.needs_image = needed;
    context.request = &request;
    Harness harness(StageTypeAccess::make<Forward>(), {}, context);
    harness.stage().open();
    const Ref<Batch> batch = testkit::random_batch(7);  // the second replica has three of them
    batch->records[4].flip_x(4);
    harness.feed(testkit::whole(batch));
    std::vector<Packet> packets = harness.take(kPredictions);
    ASSERT_EQ(packets.size(), 1U);
    const auto& predictions = static_cast<const Predictions&>(*packets[0].payload);
    ASSERT_EQ(predictions.batch.get(), needed ? batch.get() : nullptr);
    if (!needed) continue;
    std::vector<std::uint8_t> seen(batch->window.bytes()), expected(seen.size());
    predictions.copy_image(0, seen.data());
    apply_record(batch->records[4], {batch->pixels + 4 * batch->image.bytes(), batch->image}, batch->window, expected.data());
    EXPECT_EQ(seen, expected);
  }
}

class CountedToken : public StepToken {
 public:
  explicit CountedToken(int& gone) : gone_(gone) {}

 private:
  void recycle() noexcept override {
    ++gone_;
    delete this;
  }
  int& gone_;
};

TEST(Forward, KeepsTheTokenUntilASlowSinkGivesPredictionsBack) {
  testkit::Replicas replicas(1);
  Harness harness(StageTypeAccess::make<Forward>(), {}, taking(replicas.context_of(0), false, true));
  harness.stage().open();
  int gone = 0;
  std::vector<Packet> kept;
  const auto step = [&] {
    Packet packet = testkit::whole(testkit::random_batch(3));
    packet.token = make_ref<CountedToken>(gone);
    harness.feed(std::move(packet));
    for (Packet& sent : harness.take(kPredictions)) kept.push_back(std::move(sent));
  };
  for (int i = 1; i < static_cast<int>(PredictionPool::kCirculating); ++i) {
    step();
    EXPECT_EQ(gone, i);
  }
  step();
  EXPECT_EQ(gone, static_cast<int>(PredictionPool::kCirculating) - 1) << "nothing is left for another step";
  const auto* first = kept.front().payload.get();
  kept.erase(kept.begin());
  EXPECT_EQ(gone, static_cast<int>(PredictionPool::kCirculating));
  step();
  EXPECT_EQ(kept.back().payload.get(), first) << "the same again";
  EXPECT_EQ(static_cast<const Predictions&>(*kept.back().payload).turn, PredictionPool::kCirculating);
}

// One linear layer follows the hidden layer: the gradient of a score is a row of its weights.
TEST(Forward, SendsGradientsOfScores) {
  testkit::Replicas replicas(1);
  CompileRequest request;
  request.read(replicas.network.result());
  request.read_gradient({1, ScoreGradient::kPredicted});
  request.read_gradient({1, 0});
  request.read_gradient({1, ScoreGradient::kPredicted});
  ASSERT_EQ(request.gradients.size(), 2U);
  StepContext context = taking(replicas.context_of(0), false, true);
  context.request = &request;
  Harness harness(StageTypeAccess::make<Forward>(), {}, context);
  harness.stage().open();
  harness.feed(testkit::whole(testkit::random_batch(7)));
  const std::vector<Packet> packets = harness.take(kPredictions);
  ASSERT_EQ(packets.size(), 1U);
  const auto& predictions = static_cast<const Predictions&>(*packets[0].payload);
  predictions.ready->wait();
  const Predictions::Values &predicted = predictions.gradient({1, ScoreGradient::kPredicted}),
                            &first = predictions.gradient({1, 0});
  EXPECT_EQ(predicted.shape, (Shape{6}));
  const std::vector<float> weight = replicas.replicas[0]->read(kValue, 2);  // (classes, 6)
  for (std::size_t n = 0; n < predictions.count; ++n) {
    const std::span<const float> scores = predictions.result().row(n);
    const auto best = static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    for (std::size_t k = 0; k < 6; ++k) {
      EXPECT_FLOAT_EQ(predicted.row(n)[k], weight[best * 6 + k]);
      EXPECT_FLOAT_EQ(first.row(n)[k], weight[k]);
    }
  }
}

TEST(Forward, RefusesSeveralViewsOfALayersOutput) {
  testkit::Replicas replicas(1);
  StepContext context = taking(replicas.context_of(0), false, true);
  CompileRequest request;
  request.read(1);
  context.request = &request;
  const Error error = testkit::error_of(ErrorKind::usage, [&] {
    const Harness harness(StageTypeAccess::make<Forward>(), testkit::table({{"test_time", Value(std::string("flip"))}}), context);
  });
  EXPECT_NE(std::string(error.what()).find("layer 'relu', and each view"), std::string::npos) << error.what();
}

TEST(Forward, SaysBeforeTheRunThatViewsAreAddedUp) {
  testkit::Replicas replicas(1);
  const StageType type = StageTypeAccess::make<Forward>();
  for (const char* test_time : {"none", "flip", "flip_translate"}) {
    CompileRequest request;
    type.request(testkit::table({{"test_time", Value(std::string(test_time))}}), replicas.context_of(0), request);
    EXPECT_EQ(request.sums_views, std::string(test_time) != "none") << test_time;
  }
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
