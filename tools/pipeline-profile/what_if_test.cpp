#include "what_if.h"

#include <gtest/gtest.h>

#include "calibration_fixture.h"
#include "encoded_size.h"
#include "millrace/error.h"

namespace millrace {
namespace {

using profile_test::calibration;
using profile_test::facts;
using profile_test::kDecode;

std::string mistake_of(std::string_view question) {
  try {
    parse_question(question, facts());
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

Prediction answer(const Calibration& measured, std::string_view question) {
  return Predictor(measured).predict(parse_question(question, measured.facts));
}

TEST(Question, CallsAStageByTheBeginningOfItsName) {
  const Question question = parse_question("threads=4, decode=1.5x,storage_latency=20ms", facts());
  ASSERT_EQ(question.changes.size(), 3U);
  EXPECT_EQ(question.changes[1].key, "decode_image");
  EXPECT_DOUBLE_EQ(question.changes[1].value, 1.5);
  EXPECT_DOUBLE_EQ(question.changes[2].value, 20e-3);
}

TEST(Question, IsRefusedWithTheNearestKeyAndWhatWasExpected) {
  EXPECT_EQ(mistake_of("thread=4"), "--what-if: there is no 'thread' to change; did you mean 'threads'?");
  EXPECT_EQ(mistake_of("threads=2x"), "--what-if: threads = '2x': expected a whole number of at least 1");
  EXPECT_EQ(mistake_of("device=fast"), "--what-if: device = 'fast': expected how many times as fast it is, such as 2x or 0.5x");
  EXPECT_EQ(mistake_of("threads"), "--what-if: 'threads' has no value: write key=value");
  EXPECT_EQ(mistake_of("pack=256"), "--what-if: pack: the files are no JPEG or PNG images");
}

TEST(WhatIf, SaysTodayAsItWasMeasured) {
  const Predictor predictor(calibration());
  EXPECT_NEAR(predictor.measured(), 1000, 1);
  EXPECT_NEAR(predictor.simulation_error(), 0, 0.03);
  EXPECT_EQ(predictor.bound_by(), "the data threads, most of all by decode_image");
}

TEST(WhatIf, GainsWhereTheBoundIsMovedAndNowhereElse) {
  const Calibration measured = calibration();
  EXPECT_NEAR(answer(measured, "threads=4").images_per_second, 2000, 60);
  EXPECT_NEAR(answer(measured, "decode=1.5x").images_per_second, 1500, 45);
  EXPECT_NEAR(answer(measured, "device=2x").images_per_second, 1000, 30);
  const Prediction bounded = answer(measured, "threads=8");  // the device computes 2500 images a second
  EXPECT_NEAR(bounded.images_per_second, 2500, 75);
  EXPECT_EQ(bounded.bound_by, "the device");
  EXPECT_NEAR(answer(measured, "threads=8,replicas=2").images_per_second, 4000, 120);
  EXPECT_NEAR(answer(measured, "storage_latency=20ms").images_per_second, 100, 5);
}

TEST(WhatIf, TakesOutTheTimeThatThreadsWaitedForCores) {
  const Calibration busy = calibration(0.5);
  EXPECT_NEAR(graph_of(busy.facts, busy.windows).data.stages.front().seconds, kDecode, 1e-5);
}

TEST(WhatIf, KeepsWhatAStepCostsWhateverItsBatch) {
  Calibration whole = calibration(), half = calibration();
  half.facts.batch = 32;
  for (Window& window : whole.windows) window.device_seconds = window.steps * (10e-3 + 64 * 0.25e-3);
  for (Window& window : half.windows) window.device_seconds = 2 * window.steps * (10e-3 + 32 * 0.25e-3);  // steps of half a batch
  whole.facts.devices.fixed_share = fixed_share_of(whole, half);
  EXPECT_NEAR(whole.facts.devices.fixed_share, 10.0 / 26, 1e-6);
  EXPECT_NEAR(answer(whole, "threads=8,decode=8x,batch=256").images_per_second, 256 / (10e-3 + 64e-3), 100);
}

TEST(WhatIf, DividesAReplicaByTheThreadsThatItKeptBusy) {
  Calibration measured = calibration();
  measured.facts.cores = 2;
  measured.facts.devices = {.replicas = 1, .here = 1, .backend = "cpu", .threads = 2};
  for (Window& window : measured.windows) {
    window.seconds = window.device_seconds = 64 * window.steps * 1e-3;
    for (Window::Stage& stage : window.stages) stage.busy *= 1e-3;
    window.data = window.io = {1e-6, 0};
    window.device = {1.2 * window.device_seconds, 0};  // two threads, of which one sleeps for most of the time
  }
  EXPECT_NEAR(answer(measured, "replicas=2").images_per_second, 1000 * 2 / 1.2, 40);
  EXPECT_EQ(asked_share(parse_question("replicas=2", measured.facts), measured.facts), (ReplicaShare{1, 32}));
  measured.facts.devices.alone = {
      {{1, 32}, 0.5e-3, 1}};  // it was measured: threads that wait for each other may compute while they do
  EXPECT_NEAR(answer(measured, "replicas=2").images_per_second, 4000, 120);
}

TEST(WhatIf, HasABandThatHoldsWhatItSaysAndGrowsWithItsDoubt) {
  const Calibration measured = calibration();
  const Prediction threads = answer(measured, "threads=4"), image = answer(measured, "image=448,threads=4");
  EXPECT_LT(threads.low, 2000);
  EXPECT_GT(threads.high, 2000);
  EXPECT_GT((image.high - image.low) / image.images_per_second, (threads.high - threads.low) / threads.images_per_second);
}

TEST(WhatIf, SuggestsWhatHelpsMostFirst) {
  Calibration measured = calibration();
  measured.facts.source_pixels = 4000 * 3000;
  const std::string text = what_if_text(measured, {}, true);
  const std::size_t pack = text.find("pack=256"), decode = text.find("decode_image=2x"), rest = text.find("less than 2 % each");
  ASSERT_NE(pack, std::string::npos) << text;
  EXPECT_LT(pack, decode) << text;
  EXPECT_LT(decode, rest) << text;
  EXPECT_GT(text.find("device=2x"), rest) << text;
}

TEST(EncodedSize, IsReadFromTheFirstBytes) {
  const std::vector<std::uint8_t> png = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13,
                                         'I',  'H', 'D', 'R', 0,  0,  2,  0,  0, 0, 1, 0};
  EXPECT_EQ(encoded_size(png), (ImageShape{256, 512, 0}));
  const std::vector<std::uint8_t> jpeg = {0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF, 0xC2, 0, 17, 8, 1, 0, 2, 0, 3};
  EXPECT_EQ(encoded_size(jpeg), (ImageShape{256, 512, 0}));
  EXPECT_EQ(encoded_size(std::vector<std::uint8_t>{0xFF, 0xD8, 0xFF}), ImageShape{});
  EXPECT_EQ(encoded_size({}), ImageShape{});
}

}  // namespace
}  // namespace millrace
