#include <gtest/gtest.h>

#include <cmath>

#include "testkit/plain.h"
#include "testkit/recording.h"
#include "training_run.h"

namespace millrace::testkit {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

Value number(double value) { return Value(value); }

TrainingSetup setup() {
  TrainingSetup result;
  result.optimizer = table({{"learning_rate", number(0.05)},
                            {"momentum", number(0.9)},
                            {"nesterov", Value(true)},
                            {"weight_decay", number(1e-3)},
                            {"lookahead", table({{"every", Value(std::int64_t{2})}})}});
  return result;
}

std::string all(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) text += violation.text() + "\n";
  return text;
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return std::sqrt(difference / norm);
}

TEST(GpuContract, ATrainingStepWaitsForEverythingItUses) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RecordingBackend backend(make_plain_backend(), {.seed = seed});
    TrainingSetup three = setup();
    three.replicas = 3;
    train(backend, three);
    EXPECT_EQ(all(backend.violations()), "") << "seed " << seed;
  }
}

TEST(GpuContract, AnAsynchronousDeviceEndsWithTheSameWeights) {
  const TrainingResult expected = train(*make_plain_backend(), setup());
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RecordingBackend backend(make_plain_backend(), {.seed = seed});
    const TrainingResult result = train(backend, setup());
    EXPECT_EQ(result.values, expected.values) << "seed " << seed;
    ASSERT_EQ(result.reports.size(), expected.reports.size());
    for (std::size_t s = 0; s < result.reports.size(); ++s) {
      EXPECT_EQ(result.reports[s].sums.loss(), expected.reports[s].sums.loss()) << "step " << s;
    }
  }
}

TEST(GpuContract, ReplicasStayIdentical) {
  RecordingBackend backend(make_plain_backend());
  const TrainingResult result = train(backend, setup());
  EXPECT_EQ(result.values[0], result.values[1]);
}

TEST(GpuContract, AStepDoesNotDependOnTheNumberOfReplicasNorOnTheLoad) {
  TrainingSetup one = setup();
  one.replicas = 1;
  one.steps = 1;
  one.optimizer.erase("lookahead");  // a run of one step has none
  const TrainingResult expected = train(*make_plain_backend(), one);
  for (const std::vector<double>& load : std::vector<std::vector<double>>{{}, {1, 0.5}, {1, 0}, {0, 1}}) {
    TrainingSetup two = one;
    two.replicas = 2;
    two.load = load;
    const TrainingResult result = train(*make_plain_backend(), two);
    for (std::size_t p = 0; p < result.values[0].size(); ++p) {
      EXPECT_LT(relative_distance(expected.values[0][p], result.values[0][p]), 1e-5) << "parameter " << p;
    }
    EXPECT_NEAR(result.reports[0].sums.loss(), expected.reports[0].sums.loss(), 1e-9);
    EXPECT_EQ(result.reports[0].sums.weight(), 12);
  }
}

// A step has four buckets with four waits each: for replica 0's gradients, for replica 1's, for the sum, and for its copy. Then
// replica 0's optimizer waits twice: before its first update, and for the last one's report on the gradients.
constexpr std::uint64_t kWaitsOfAStep = 18;

std::vector<Violation> violations_without_wait(std::uint64_t number) {
  RecordingBackend backend(make_plain_backend(), {.leave_out_wait = number});
  train(backend, setup());
  return backend.violations();
}

TEST(GpuContract, ReportsASumThatDoesNotWaitForAReplicasGradients) {
  if (kThreadSanitizer) GTEST_SKIP() << "the planted fault is a data race";
  for (const int replica : {0, 1}) {
    const auto violations = violations_without_wait(2 * kWaitsOfAStep + 1 + static_cast<std::uint64_t>(replica));
    ASSERT_FALSE(violations.empty());
    EXPECT_EQ(violations[0].text(),
              "missing wait: allreduce.sum of step 2 (replica 0, bucket 0) uses the gradients of bucket 0 on replica " +
                  std::to_string(replica) + " without having waited for forward_backward.backward of step 2 (replica " +
                  std::to_string(replica) + ", bucket 0)");
  }
}

TEST(GpuContract, ReportsACopyThatDoesNotWaitForTheSum) {
  if (kThreadSanitizer) GTEST_SKIP() << "the planted fault is a data race";
  const auto violations = violations_without_wait(2 * kWaitsOfAStep + 3);
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].operation.text(), "allreduce.copy of step 2 (replica 1, bucket 0)");
  EXPECT_EQ(violations[0].before.text(), "allreduce.sum of step 2 (replica 0, bucket 0)");
}

TEST(GpuContract, ReportsABackwardThatOverwritesWhatAnotherReplicaStillCopies) {
  if (kThreadSanitizer) GTEST_SKIP() << "the planted fault is a data race";
  const auto violations =
      violations_without_wait(3 * kWaitsOfAStep - 1);  // the last except the optimizer's: later ones cannot compensate
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].operation.text(), "forward_backward.backward of step 3 (replica 0, bucket 3)");
  EXPECT_EQ(violations[0].before.text(), "allreduce.copy of step 2 (replica 1, bucket 3)");
}

TEST(GpuContract, ReportsABatchThatIsRefilledBeforeItWasRead) {
  RecordingBackend backend(make_plain_backend(), {.release_batch_early = 2 * 2 + 2});
  train(backend, setup());
  const auto violations = backend.violations();
  ASSERT_EQ(violations.size(), 1U) << all(violations);
  EXPECT_EQ(violations[0].kind, "buffer reused in flight");
  EXPECT_EQ(violations[0].before.text(), "forward_backward.ingest of step 2 (replica 1)");
}

TEST(GpuContract, ReportsABucketThatIsUpdatedBeforeItIsReduced) {
  if (kThreadSanitizer) GTEST_SKIP() << "the planted fault is a data race";
  // In a step: four buckets, each with an update of replica 0 and of replica 1.
  for (const std::uint64_t replica : {0, 1}) {
    RecordingBackend backend(make_plain_backend(), {.ignore_after = 3 * 8 + 2 * 1 + 1 + replica});
    train(backend, setup());
    const auto violations = backend.violations();
    ASSERT_FALSE(violations.empty());
    EXPECT_EQ(violations[0].operation.text(), "optimizer.update of step 3 (replica " + std::to_string(replica) + ", bucket 1)");
    EXPECT_EQ(violations[0].before.name, replica == 0 ? "allreduce.sum" : "allreduce.copy");
    EXPECT_EQ(violations[0].before.step, 3U);
  }
}

}  // namespace
}  // namespace millrace::testkit
