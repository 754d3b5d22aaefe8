// Requirements for every loss, tested with its own examples.
#include <gtest/gtest.h>

#include <numeric>

#include "loss_fixture.h"

namespace millrace::losses {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, type] : testkit::loss_registry().losses()) all.push_back(name);
  return all;
}

class EveryLoss : public testing::TestWithParam<std::string> {
 protected:
  template <class Use>
  void for_each_example(const Use& use) const {
    const LossType& type = *testkit::loss_registry().losses().find(GetParam());
    for (const LossExample& example : type.examples) {
      SCOPED_TRACE(example.table);
      LossTrial trial(testkit::example_loss(type, example), example.output, 6);
      use(trial);
    }
  }
};

TEST_P(EveryLoss, LeavesSamplesWithoutWeightOut) {
  for_each_example([](LossTrial& trial) {
    trial.weights[2] = 0;
    trial.labels[2] = trial.seconds[2] = -1;  // they have none
    const std::vector<double> sums = trial.run();
    const std::size_t each = trial.outputs.size() / 6;
    for (std::size_t i = 2 * each; i < 3 * each; ++i) ASSERT_EQ(trial.gradient[i], 0.0F);
    for (std::size_t i = 2 * each; i < 3 * each; ++i) trial.outputs[i] += 5;
    const std::vector<double> again = trial.run();
    for (std::size_t s = 0; s < trial.loss->info().sums.size(); ++s) EXPECT_EQ(again[s], sums[s]) << trial.loss->info().sums[s];
  });
}

TEST_P(EveryLoss, AddsUpTheSameWithoutGradientAndInAnyOrder) {
  for_each_example([](LossTrial& trial) {
    const std::vector<double> sums = trial.run();
    const std::vector<float> gradient = trial.gradient;
    EXPECT_EQ(trial.run(true), sums);
    EXPECT_EQ(trial.gradient, gradient);
    trial.wants_gradient = false;
    EXPECT_EQ(trial.run(), sums);
  });
}

TEST_P(EveryLoss, NamesItsFigures) {
  const LossInfo& info = *testkit::loss_registry().losses().find(GetParam())->info;
  ASSERT_FALSE(info.figures.empty());
  EXPECT_EQ(info.figures.front().name, "loss");
  for (const LossFigure& figure : info.figures) {
    EXPECT_FALSE(figure.text.empty()) << figure.name;
    const std::vector<double> nothing(info.sums.size() + (info.class_matrix || info.class_totals ? 9 : 0), 0.0);
    EXPECT_EQ(figure.finish(nothing), 0) << figure.name << " of no samples";
  }
}

TEST_P(EveryLoss, HasDeviceCode) {
  if (!MILLRACE_HAS_CUDA) GTEST_SKIP() << "built without a CUDA toolkit";
  for_each_example([](LossTrial& trial) {
    LossPass pass;
    trial.loss->compute(pass);
    for (const PassCall& call : pass.calls()) EXPECT_NE(call.kernel->first.on_device, nullptr) << call.kernel->first.name;
    const LossInfo& info = trial.loss->info();
    for (const Kernel* kernel : {info.sum_places, info.join_sums, info.count_pairs, info.add_classes})
      EXPECT_NE(kernel->on_device, nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Losses, EveryLoss, testing::ValuesIn(names()), [](const auto& at) { return at.param; });

TEST(Huber, ADeltaOfZeroIsAMistake) { EXPECT_THROW(testkit::make_loss("huber", testkit::table({{"delta", Value(0.0)}})), Error); }

TEST(LossSums, OfManyPlacesAreJoined) {
  LossTrial trial(testkit::make_loss("pixel_cross_entropy"), {3, 90, 100}, 2);  // five chunks
  const std::vector<double> sums = trial.run();
  double pixels = 0;
  std::vector<double> classes(3, 0);
  for (const float target : trial.targets) {
    if (target < 0) continue;
    pixels += 1;
    classes[static_cast<std::size_t>(target)] += 1;
  }
  EXPECT_EQ(sums[3], pixels);
  double right = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(sums[4 + 3 * c] + sums[5 + 3 * c] + sums[6 + 3 * c], classes[c]);
    right += sums[4 + 4 * c];
  }
  EXPECT_EQ(right, sums[2]);
}

// Once, each chunk of places had its own matrix: 532 MB for 255 classes and 16 images of 512 x 512.
TEST(LossSums, OfManyClassesTakeLittleMemory) {
  const LossPlan plan(testkit::make_loss("pixel_cross_entropy"), {255, 512, 512});
  constexpr std::size_t kPlaces = 16 * 512 * 512, kOfAPlace = 5 * sizeof(float);  // four sums, and the predicted class
  EXPECT_LT(plan.workspace(16), kPlaces * kOfAPlace + (std::size_t{34} << 20));
}

TEST(LossSums, OfPairsAreTheSameInChunksOfAnySize) {
  constexpr std::int64_t kPlaces = 10'000, kClasses = 3;
  std::vector<float> classes, predicted;
  for (std::int64_t i = 0; i < kPlaces; ++i) {
    classes.push_back(static_cast<float>(i % 4 - 1));
    predicted.push_back(static_cast<float>(i * i % 7 % 3));
  }
  std::vector<double> expected(kClasses * kClasses);
  for (const std::int64_t chunks : {1, 2, 3, 64}) {
    std::vector<double> pairs(static_cast<std::size_t>(kClasses * kClasses * chunks), -1), sums(kClasses * kClasses);
    const CountPairs count{classes.data(), predicted.data(), pairs.data(), kClasses, kPlaces, chunks};
    group_kernel<CountPairs>.run_on_host(&count, 0, group_kernel<CountPairs>.units(&count));
    for (std::size_t i = 0; i < pairs.size(); ++i) sums[i / static_cast<std::size_t>(chunks)] += pairs[i];
    if (chunks == 1) expected = sums;
    EXPECT_EQ(sums, expected) << chunks;
  }
  EXPECT_EQ(std::accumulate(expected.begin(), expected.end(), 0.0), kPlaces * 3 / 4);
}

}  // namespace
}  // namespace millrace::losses
