#include "optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/optimizers.h"
#include "testkit/plain.h"

namespace millrace {
namespace {

using testkit::table;

Value number(double value) { return Value(value); }

// One replica of a small network with all values 1, and an optimizer with gradients set by hand.
class OptimizerTest : public testing::Test {
 protected:
  OptimizerTest() : network_(testkit::small_network({2, 2, 1}, 3, 2)), device_(testkit::make_plain_backend()->open(0, {})) {
    context_.graph = "train";
    context_.name = "optimizer";
    context_.network = &network_;
    context_.registry = &testkit::optimizer_registry();
    context_.replica = 0;
    context_.batch_size = 128;
    context_.steps_per_epoch = 10;
    context_.total_steps = context_.last_step = 40;
  }

  testkit::Harness& start(const Value& parameters) {
    compile(parameters);
    context_.replicas.assign(static_cast<std::size_t>(context_.replica) + 1, replica_.get());
    context_.devices.assign(context_.replicas.size(), device_.get());
    harness_ = std::make_unique<testkit::Harness>(StageTypeAccess::make<OptimizerStage>(), parameters, context_);
    harness_->stage().open();
    return *harness_;
  }

  void compile(const Value& parameters) {
    CompileOptions options;
    options.bucket_bytes = 1;
    StageTypeAccess::make<OptimizerStage>().request(parameters, context_, options.request);
    replica_ = device_->compile(network_, options);
    replica_->start();
    for (std::size_t p = 0; p < network_.parameters.size(); ++p) {
      const std::vector<float> ones(static_cast<std::size_t>(network_.parameters[p].shape.elements()), 1.0F);
      replica_->write(kValue, static_cast<int>(p), ones);
    }
  }

  void feed(std::uint64_t step, int bucket, float gradient, Ref<StepToken> token = {}) {
    const Bucket& memory = replica_->buckets()[static_cast<std::size_t>(bucket)];
    std::fill_n(memory.gradients, memory.elements, gradient);
    Ref<GradientBucket> payload = make_ref<GradientBucket>();
    payload->token = std::move(token);
    payload->step = step;
    payload->bucket = bucket;
    payload->buckets = static_cast<int>(replica_->buckets().size());
    payload->scale = scale_;
    harness_->feed(testkit::packet(std::move(payload), step));
  }
  void feed_step(std::uint64_t step, float gradient) {
    for (int b = 0; b < static_cast<int>(replica_->buckets().size()); ++b) feed(step, b, gradient);
  }
  float value(const char* name) { return replica_->read(kValue, network_.find_parameter(name))[0]; }

  Network network_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Replica> replica_;
  StepContext context_;
  const float* scale_ = nullptr;  // of the input gradients
  std::unique_ptr<testkit::Harness> harness_;
};

TEST_F(OptimizerTest, AScheduleDrivesTheRateAndIsReported) {
  testkit::Harness& harness = start(
      table({{"learning_rate",
              table({{"initial", number(0.5)}, {"schedule", Value(std::string("piecewise"))}, {"drop_epochs", number(1)}})}}));
  feed_step(9, 1);
  EXPECT_NEAR(value("fc1.weight"), 0.5, 1e-6);
  feed_step(10, 1);
  EXPECT_NEAR(value("fc1.weight"), 0.45, 1e-6);
  EXPECT_DOUBLE_EQ(harness.run().scalars(9).at("learning_rate"), 0.5);
  EXPECT_DOUBLE_EQ(harness.run().scalars(10).at("learning_rate"), 0.05);
}

TEST_F(OptimizerTest, TheRunMayChangeTheRateFromAStepOn) {
  class Slowed : public testkit::RecordedRun {
    double rate_factor(std::uint64_t step) const override { return step < 3 ? 1 : 0.5; }
  } run;
  context_.run = &run;
  start(table({{"learning_rate", number(0.25)}}));
  feed_step(2, 1);
  EXPECT_EQ(value("fc1.weight"), 0.75F);
  feed_step(3, 1);
  EXPECT_EQ(value("fc1.weight"), 0.625F);
  EXPECT_EQ(run.scalars(2).at("learning_rate"), 0.25);
  EXPECT_EQ(run.scalars(3).at("learning_rate"), 0.125);
}

TEST_F(OptimizerTest, OnlyTheFirstReplicaReports) {
  context_.replica = 1;
  testkit::Harness& harness = start({});
  feed_step(0, 1);
  EXPECT_TRUE(harness.run().scalars(0).empty());
}

TEST_F(OptimizerTest, TheRateScalesWithTheBatch) {
  testkit::Harness& harness =
      start(table({{"learning_rate", number(0.1)}, {"scale_with_batch", table({{"reference", number(256)}})}}));
  feed_step(0, 0);
  EXPECT_DOUBLE_EQ(harness.run().scalars(0).at("learning_rate"), 0.05);
}

TEST_F(OptimizerTest, TheRateMayScaleWithTheSquareRootOfTheBatch) {
  const Value scale = table({{"reference", number(512)}, {"scaling", Value(std::string("square_root"))}});
  testkit::Harness& harness = start(table({{"learning_rate", number(0.1)}, {"scale_with_batch", scale}}));
  feed_step(0, 0);
  EXPECT_DOUBLE_EQ(harness.run().scalars(0).at("learning_rate"), 0.05);  // a batch of 128
}

// airbench: shifts of batch norm at 64 times the rate, decayed by as much per step as everything else.
TEST_F(OptimizerTest, GroupsHaveRateAndDecayOfTheirOwn) {
  const Value group =
      table({{"match", Value(std::string("*.bias"))}, {"rate_factor", number(64)}, {"decay_factor", number(1.0 / 64)}});
  start(table({{"learning_rate", number(0.001)}, {"weight_decay", number(2)}, {"groups", Value(Array{group})}}));
  feed_step(0, 0);
  EXPECT_NEAR(value("fc1.weight"), 1 - 0.001 * 2, 1e-6);
  EXPECT_NEAR(value("fc1.bias"), 1 - 0.001 * 2, 1e-6);
  feed_step(1, 1);
  EXPECT_NEAR(value("fc1.weight"), 0.998 - 0.001 * (1 + 2 * 0.998), 1e-6);
  EXPECT_NEAR(value("fc1.bias"), 0.998 - 0.064 * (1 + 2 * 0.998 / 64), 1e-6);
}

TEST_F(OptimizerTest, AGroupMayHaveAnOptimizerOfItsOwn) {
  const Value group = table({{"match", Value(std::string("fc1.weight"))},
                             {"vectors", Value(true)},
                             {"type", Value(std::string("sgd"))},
                             {"momentum", number(0.5)}});
  start(table({{"type", Value(std::string("lion"))}, {"learning_rate", number(0.25)}, {"groups", Value(Array{group})}}));
  feed_step(0, 0.5F);
  feed_step(1, 0.5F);
  for (const char* by_sgd : {"fc1.weight", "fc1.bias", "fc2.bias"})
    EXPECT_EQ(value(by_sgd), 1 - 0.25F * (0.5F + 0.75F)) << by_sgd;
  EXPECT_EQ(value("fc2.weight"), 0.5F);  // by the sign of the gradient
}

TEST_F(OptimizerTest, ParametersThatTheirOptimizerCannotUpdateAreNamed) {
  const Value vectors = table({{"vectors", Value(true)}, {"type", Value(std::string("sgd"))}});
  EXPECT_NO_THROW(compile(table({{"type", Value(std::string("muon"))}, {"groups", Value(Array{vectors})}})));
  EXPECT_MESSAGE(testkit::error_of([&] { compile(table({{"type", Value(std::string("muon"))}})); }).what());
}

TEST_F(OptimizerTest, AGroupStaysAsItIsFromItsEpochOn) {
  const Value group = table({{"match", Value(std::string("fc1.bias"))}, {"until_epoch", number(2)}});
  start(table({{"learning_rate", number(0.125)}, {"groups", Value(Array{group})}}));
  feed_step(19, 1);
  EXPECT_EQ(value("fc1.bias"), 0.875F);
  feed_step(20, 1);
  EXPECT_EQ(value("fc1.bias"), 0.875F);
  EXPECT_EQ(value("fc2.bias"), 0.75F);
}

TEST_F(OptimizerTest, LookaheadBlendsAtItsStepsAndEndsWithTheSlowWeights) {
  start(table({{"learning_rate", number(0.01)}, {"lookahead", table({{"every", Value(std::int64_t{5})}})}}));
  double w = 1, slow = 1;
  for (std::uint64_t step = 0; step < 40; ++step) {
    w -= 0.01;
    if ((step + 1) % 5 == 0) {
      const double t = static_cast<double>(step + 1) / 40;
      const double d = std::pow(0.95, 5) * t * t * t;
      w = slow = d * slow + (1 - d) * w;
    }
    feed_step(step, 1);
    EXPECT_NEAR(value("fc1.weight"), w, 1e-5) << "step " << step;
  }
  EXPECT_NEAR(replica_->read("slow", 0)[0], slow, 1e-5);
}

TEST_F(OptimizerTest, ARunThatEndsBetweenBlendsEndsWithTheSlowWeights) {
  context_.total_steps = context_.last_step = 7;
  start(table({{"learning_rate", number(0.125)}, {"lookahead", table({{"every", Value(std::int64_t{5})}})}}));
  for (std::uint64_t step = 0; step < 5; ++step) feed_step(step, 1);
  const float slow = value("fc1.weight");
  for (std::uint64_t step = 5; step < 7; ++step) feed_step(step, 1);
  EXPECT_EQ(value("fc1.weight"), slow);
  EXPECT_NE(slow, 1.0F);
}

TEST_F(OptimizerTest, ARunThatEndsBeforeTheFirstBlendKeepsWhatItHasLearned) {
  context_.total_steps = context_.last_step = 7;
  start(table({{"learning_rate", number(0.125)}, {"lookahead", table({{"every", Value(std::int64_t{8})}})}}));
  for (std::uint64_t step = 0; step < 7; ++step) feed_step(step, 1);
  EXPECT_EQ(value("fc1.weight"), 0.125F);
}

TEST_F(OptimizerTest, AnAverageFollowsTheWeightsAndTakesTheirPlaceOnlyWhenAsked) {
  start(table({{"learning_rate", number(0.25)}, {"ema", table({{"decay", number(0.5)}, {"every", Value(std::int64_t{2})}})}}));
  feed_step(0, 1);  // 0.75
  feed_step(1, 1);  // 0.5, where the average begins
  feed_step(2, 1);  // 0.25
  feed_step(3, 1);  // 0
  EXPECT_EQ(value("fc1.weight"), 0.0F);
  EXPECT_EQ(replica_->read("average", 0)[0], 0.25F);
  replica_->swap_with("average");
  EXPECT_EQ(value("fc1.weight"), 0.25F);
  EXPECT_EQ(replica_->read("average", 0)[0], 0.0F);
  replica_->swap_with("average");
  EXPECT_EQ(value("fc1.weight"), 0.0F);
}

// Four epochs of ten steps: the mean begins with half the run, at steps 20, 30 and 40.
TEST_F(OptimizerTest, AverageIsThePlainMeanOfTheWeightsAtTheEndsOfEpochs) {
  start(table({{"learning_rate", number(0.01)}, {"average", table({{"start", number(0.5)}})}}));
  double sum = 0, places = 0;
  for (std::uint64_t step = 0; step < 40; ++step) {
    feed_step(step, static_cast<float>(1 + step % 3));
    if (step + 1 == 20 || step + 1 == 30 || step + 1 == 40) {
      sum += static_cast<double>(value("fc1.weight"));
      places += 1;
    }
    if (places > 0) {
      EXPECT_NEAR(replica_->read("average", 0)[0], sum / places, 1e-6) << step;
    }
  }
  EXPECT_EQ(places, 3);
  EXPECT_GT(std::abs(static_cast<double>(value("fc1.weight")) - sum / places), 0.05) << "the weights themselves went on";
}

TEST_F(OptimizerTest, AverageMayTakeItsPlacesBySteps) {
  start(table({{"learning_rate", number(0.25)}, {"average", table({{"start", number(0)}, {"every", Value(std::int64_t{2})}})}}));
  for (std::uint64_t step = 0; step < 6; ++step) feed_step(step, 1);  // 0.5, 0 and -0.5 after steps 2, 4 and 6
  EXPECT_NEAR(replica_->read("average", 0)[0], 0, 1e-6);
  EXPECT_EQ(value("fc1.weight"), -0.5F);
}

TEST_F(OptimizerTest, AverageGoesOnWithThePlacesItHasSaved) {
  const Value parameters =
      table({{"learning_rate", number(0.25)}, {"average", table({{"start", number(0)}, {"every", Value(std::int64_t{1})}})}});
  EXPECT_EQ(start(parameters).stage().save(), "0 0");
  for (std::uint64_t step = 0; step < 3; ++step) feed_step(step, 1);  // 0.75, 0.5, 0.25
  EXPECT_EQ(harness_->stage().save(), "3 3");
  start(parameters).stage().restore("3 3");
  for (int p = 0; p < static_cast<int>(network_.parameters.size()); ++p) {
    const auto size = static_cast<std::size_t>(network_.parameters[static_cast<std::size_t>(p)].shape.elements());
    replica_->write(kValue, p, std::vector<float>(size, 0.25F));
    replica_->write("average", p, std::vector<float>(size, 0.5F));
  }
  feed_step(3, 1);  // 0
  EXPECT_NEAR(replica_->read("average", 0)[0], (0.75 + 0.5 + 0.25 + 0) / 4, 1e-6);
  EXPECT_THROW(harness_->stage().restore("3 three"), Error);
}

TEST_F(OptimizerTest, TwoAveragesAreAMistake) {
  CompileOptions refused, options;
  const Value both = table({{"ema", table({{"decay", number(0.5)}})}, {"average", table({{"start", number(0.5)}})}});
  EXPECT_THROW(StageTypeAccess::make<OptimizerStage>().request(both, context_, refused.request), Error);
  const Value one = table({{"average", table({{"every", Value(std::string("epoch"))}})}});
  StageTypeAccess::make<OptimizerStage>().request(one, context_, options.request);
  EXPECT_EQ(options.request.evaluated, "average");
  EXPECT_EQ(options.request.copies, std::vector<std::string>{"average"});
}

TEST_F(OptimizerTest, AsksForTheAverageToBeEvaluated) {
  CompileOptions options;
  StageTypeAccess::make<OptimizerStage>().request(table({{"ema", table({{"decay", number(0.5)}})}}), context_, options.request);
  EXPECT_EQ(options.request.evaluated, "average");
  EXPECT_EQ(options.request.copies, std::vector<std::string>{"average"});
}

TEST_F(OptimizerTest, GradientsAreScaledAsTheirBucketSays) {
  start(table({{"learning_rate", number(0.5)}, {"momentum", number(0.5)}}));
  const float half = 0.5F, none = 0;
  scale_ = &half;
  feed_step(0, 1);
  EXPECT_EQ(value("fc1.weight"), 0.75F);
  scale_ = &none;
  feed_step(1, 1);
  EXPECT_EQ(value("fc1.weight"), 0.75F) << "and no momentum moves it";
}

// The stage that scales them checks them.
TEST_F(OptimizerTest, SaysAtOnceThatAGradientIsNotFinite) {
  for (const char* const optimizer : {"sgd", "lars", "muon"}) {
    SCOPED_TRACE(optimizer);
    scale_ = nullptr;
    const Value vectors = table({{"vectors", Value(true)}, {"type", Value(std::string("sgd"))}});
    start(table({{"learning_rate", number(0.5)}, {"type", Value(std::string(optimizer))}, {"groups", Value(Array{vectors})}}));
    feed_step(0, 1);
    EXPECT_TRUE(harness_->run().not_finite().empty());
    const float one = 1;
    scale_ = &one;
    feed_step(1, INFINITY);
    EXPECT_TRUE(harness_->run().not_finite().empty());
    scale_ = nullptr;
    feed_step(2, INFINITY);
    EXPECT_EQ(harness_->run().not_finite(), (std::map<std::uint64_t, std::string>{{2, "a gradient"}}));
  }
}

// Otherwise slow weights would restart from the weights, and the optimizer would count from 0.
TEST_F(OptimizerTest, GoesOnWithWhatItHasSaved) {
  const Value parameters = table({{"learning_rate", number(0.5)}, {"lookahead", table({{"every", Value(std::int64_t{10})}})}});
  EXPECT_EQ(start(parameters).stage().save(), "0");
  feed_step(0, 1);
  feed_step(1, 1);
  EXPECT_EQ(harness_->stage().save(), "2");
  EXPECT_EQ(replica_->read("slow", 0)[0], 1.0F);
  start(parameters).stage().restore("2");
  const std::vector<float> saved(static_cast<std::size_t>(network_.parameters[0].shape.elements()), 0.75F);
  replica_->write("slow", 0, saved);
  feed_step(2, 1);
  EXPECT_EQ(replica_->read("slow", 0)[0], 0.75F);
  EXPECT_EQ(harness_->stage().save(), "3");
  EXPECT_THROW(harness_->stage().restore("two"), Error);
}

class WatchedToken : public StepToken {
 public:
  explicit WatchedToken(bool& gone) : gone_(gone) {}

 private:
  void recycle() noexcept override {
    gone_ = true;
    delete this;
  }
  bool& gone_;
};

TEST_F(OptimizerTest, LetsGoOfTheTokenWithTheLastBucket) {
  start({});
  bool gone = false;
  Ref<StepToken> token = make_ref<WatchedToken>(gone);
  for (int b = 0; b < 4; ++b) {
    EXPECT_FALSE(gone) << "bucket " << b;
    feed(0, b, 1, b < 3 ? token : std::move(token));
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace millrace
