#include <fmt/format.h>
#include <gtest/gtest.h>

#include "loss_fixture.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::losses {
namespace {

// `positive`: one number, one for each of three labels, or none.
LossTrial binary_trial(const std::vector<double>& positive = {}) {
  const Value parameters = positive.empty() ? Value() : list_table("positive_weight", positive);
  LossTrial trial(testkit::make_loss("binary_cross_entropy", parameters), {3}, 8);
  for (std::size_t i = 0; i < trial.targets.size(); ++i) trial.targets[i] = static_cast<float>(i % 5) / 4;
  return trial;
}

TEST(BinaryCrossEntropy, StaysFiniteForLargeOutputs) {
  LossTrial trial(testkit::make_loss("binary_cross_entropy"), {4}, 1);
  trial.outputs = {1e4F, -1e4F, 1e4F, -1e4F};
  trial.targets = {1, 0, 0, 1};
  EXPECT_FLOAT_EQ(static_cast<float>(trial.run()[kLoss]), 5e3F);
  EXPECT_EQ(trial.gradient, (std::vector<float>{0, 0, 0.25F, -0.25F}));
}

TEST(BinaryCrossEntropy, ADivergedNetworkIsNeverRight) {
  LossTrial trial(testkit::make_loss("binary_cross_entropy"), {2}, 1);
  trial.outputs.assign(2, std::nanf(""));
  trial.targets = {0, 1};
  const std::vector<double> sums = trial.run();
  EXPECT_TRUE(std::isnan(sums[kLoss]));
  EXPECT_EQ(sums[2], 0);
}

// Outside of 0 ... 1 the loss has no lower bound.
TEST(BinaryCrossEntropy, NamesTheSampleWhoseNumbersAreNoTargets) {
  const Ref<Batch> batch = testkit::make_batch(2, {4, 4, 3});
  std::vector<float> numbers = {0, 0.5F, 1, 0, 0, 0};
  batch->numbers_per_sample = 3;
  batch->numbers = numbers.data();
  batch->samples[1].url = "photos/1.jpg";
  const auto check = [&](const char* loss) { check_labels(*testkit::make_loss(loss), *batch, 0, 2, {3}); };
  EXPECT_NO_THROW(check("binary_cross_entropy"));
  for (const float wrong : {2.0F, -1.0F}) {
    numbers[4] = wrong;
    const Error error = testkit::error_of([&] { check("binary_cross_entropy"); });
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(error.message(),
              fmt::format("sample 'photos/1.jpg': number 2 of 3 is {}, but loss 'binary_cross_entropy' takes numbers from 0 to 1",
                          wrong));
  }
  EXPECT_NO_THROW(check("mean_squared_error"));
  batch->weights[1] = 0;  // it does not count
  EXPECT_NO_THROW(check("binary_cross_entropy"));
}

TEST(BinaryCrossEntropy, RefusesWhatDoesNotFit) {
  const auto mistake = [](const std::vector<double>& positive, TargetSpec::Kind kind) -> std::string {
    LossSetting setting;
    setting.output = kind == TargetSpec::Kind::image ? Shape{3, 8, 8} : Shape{3};
    setting.window = {8, 8, 3};
    setting.target.kind = kind;
    setting.numbers = 3;
    try {
      check_loss(*binary_trial(positive).loss, setting);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const TargetSpec::Kind none = TargetSpec().kind;
  EXPECT_EQ(mistake({}, none), "");
  EXPECT_EQ(mistake({2}, none), "");
  EXPECT_EQ(mistake({1, 2, 3}, none), "");
  EXPECT_MESSAGE(mistake({1, 2}, none));
  EXPECT_MESSAGE(mistake({}, TargetSpec::Kind::image));
  EXPECT_THROW(testkit::make_loss("binary_cross_entropy", list_table("positive_weight", {-1})), Error);
  EXPECT_THROW(testkit::make_loss("binary_cross_entropy", list_table("positive_weight", {0})), Error);
}

}  // namespace
}  // namespace millrace::losses
