#include <gtest/gtest.h>

#include "loss_fixture.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace::losses {
namespace {

Value weights(const std::vector<double>& values) { return list_table("class_weights", values); }

TEST(PixelCrossEntropy, FindsIntersectionOverUnion) {
  LossTrial trial(testkit::make_loss("pixel_cross_entropy"), {3, 1, 4}, 1);
  trial.targets = {0, 0, 1, -1};
  trial.outputs = {2, 1, 0, 0, 3, 0, 0, 3, 0, 9, 9, 10};  // predicted: 0, 1, 1, and 2 for the ignored pixel
  const std::vector<double> sums = trial.run();
  const auto figure = [&](const char* name) {
    for (const LossFigure& each : trial.loss->info().figures) {
      if (each.name == name) return each.finish(sums);
    }
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(figure("accuracy"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(figure("mean_accuracy"), (0.5 + 1) / 2);
  EXPECT_DOUBLE_EQ(figure("mean_iou"), (0.5 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(figure("weighted_iou"), (2 * 0.5 + 1 * 0.5) / 3);
}

TEST(PixelCrossEntropy, CountsTheWeightOfABatchAsItsKernelsDo) {
  const Ref<Batch> batch = testkit::make_batch(2, {2, 3, 3});
  batch->target.kind = TargetSpec::Kind::classes;
  std::vector<std::uint8_t> targets = {0, 1, 2, 255, 1, 1, 2, 2, 0, 0, 0, 255};
  batch->targets = targets.data();
  batch->records[1].translate(1, 0);  // pixels from outside do not count
  const auto plain = testkit::make_loss("pixel_cross_entropy"),
             weighted = testkit::make_loss("pixel_cross_entropy", weights({1, 10, 100}));
  EXPECT_EQ(plain->weight(*batch, {0, 2}, 6), 5 + 4);
  EXPECT_EQ(weighted->weight(*batch, {0, 2}, 6), (1 + 3 * 10 + 100) + (200 + 2));
}

TEST(PixelCrossEntropy, CountsTheWeightOfLargerTargetsAsItsKernelsDo) {
  const Ref<Batch> batch = testkit::make_batch(1, {1, 2, 3});
  batch->target.kind = TargetSpec::Kind::classes;
  batch->target.scale = 2;
  std::vector<std::uint8_t> targets = {0, 1, 2, 2, 0, 255, 2, 2};
  batch->targets = targets.data();
  batch->records[0].translate(-1, 0);
  EXPECT_EQ(testkit::make_loss("pixel_cross_entropy", weights({1, 10, 100}))->weight(*batch, {0, 1}, 8), 400);
}

TEST(PixelCrossEntropy, RefusesWhatDoesNotFit) {
  LossSetting setting;
  setting.output = {3, 8, 8};
  setting.window = {8, 8, 3};
  const auto mistake = [&](const Loss& loss) -> std::string {
    try {
      check_loss(loss, setting);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "";
  };
  const auto loss = testkit::make_loss("pixel_cross_entropy");
  EXPECT_MESSAGE(mistake(*loss));
  setting.target.kind = TargetSpec::Kind::classes;
  setting.target.classes.fill(255);
  setting.target.classes[4] = 3;
  EXPECT_MESSAGE(mistake(*loss));
  setting.target.classes[4] = 2;
  EXPECT_EQ(mistake(*loss), "");
  EXPECT_MESSAGE(mistake(*testkit::make_loss("pixel_cross_entropy", weights({1, 2}))));
  setting.output = {3, 4, 4};
  EXPECT_MESSAGE(mistake(*loss));
  setting.target.scale = 2;
  EXPECT_MESSAGE(mistake(*loss));
  setting.output = {3, 16, 16};
  EXPECT_EQ(mistake(*loss), "");
  setting.target.scale = 1;
  EXPECT_MESSAGE(mistake(*loss));
  setting.output = {3};
  EXPECT_NE(mistake(*loss).find("the network gives 3 numbers for a whole image, as classifiers do"), std::string::npos);
  EXPECT_THROW(testkit::make_loss("pixel_cross_entropy", weights({-1})), Error);
}

}  // namespace
}  // namespace millrace::losses
