#include "what_if.h"

#include <gtest/gtest.h>

#include "calibration_fixture.h"
#include "calibration_run.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using profile_test::calibration;
using profile_test::facts;
using profile_test::kDecode;

std::string mistake_of(std::string_view question) {
  return testkit::error_of([&] { parse_question(question, facts()); }).message();
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
  EXPECT_MESSAGE(mistake_of("threads=3,dec=2x,threads=1"));
  EXPECT_MESSAGE(mistake_of("thread=4"));
  EXPECT_MESSAGE(mistake_of("threads=2x"));
  EXPECT_MESSAGE(mistake_of("device=fast"));
  EXPECT_MESSAGE(mistake_of("threads"));
  EXPECT_MESSAGE(mistake_of("cores=5000"));
  EXPECT_MESSAGE(mistake_of("pack=256"));
}

TEST(WhatIf, AsksForMoreTimeWhereTooFewStepsWereMeasured) {
  Calibration measured = calibration();
  measured.windows.resize(1);
  EXPECT_MESSAGE(testkit::error_of([&] { Predictor{measured}; }).what());
}

TEST(WhatIf, SaysTodayAsItWasMeasured) {
  const Predictor predictor(calibration());
  EXPECT_NEAR(predictor.measured(), 1000, 1);
  EXPECT_NEAR(predictor.simulation_error(), 0, 0.03);
  EXPECT_MESSAGE(predictor.bound_by());
}

TEST(WhatIf, GainsWhereTheBoundIsMovedAndNowhereElse) {
  const Calibration measured = calibration();
  EXPECT_NEAR(answer(measured, "threads=4").images_per_second, 2000, 60);
  EXPECT_NEAR(answer(measured, "decode=1.5x").images_per_second, 1500, 45);
  EXPECT_NEAR(answer(measured, "device=2x").images_per_second, 1000, 30);
  const Prediction bounded = answer(measured, "threads=8");  // the device computes 2500 images a second
  EXPECT_NEAR(bounded.images_per_second, 2500, 75);
  EXPECT_EQ(bounded.bound_by, "the device");
  EXPECT_NEAR(answer(measured, "threads=7,replicas=2").images_per_second, 3500, 105);
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
  for (Window& window : half.windows) window.device_seconds = 2 * window.steps * (10e-3 + 32 * 0.25e-3);  // half a batch
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
    for (Window::Stage& stage : window.stages) stage.busy *= 1e-3, stage.computing *= 1e-3;
    window.data = window.io = {1e-6, 0};
    window.device = {1.2 * window.device_seconds, 0};  // two threads, one of which sleeps most of the time
  }
  EXPECT_NEAR(answer(measured, "replicas=2").images_per_second, 1000 * 2 / 1.2, 40);
  EXPECT_EQ(asked_share(parse_question("replicas=2", measured.facts), measured.facts), (StepShare{2, 2, 64}));
  // Both were measured alone: threads that wait for each other may compute meanwhile.
  measured.facts.devices.alone = {{{2, 1, 64}, 0.8e-3, 1.2}, {{2, 2, 64}, 0.4e-3, 1}};
  EXPECT_NEAR(answer(measured, "replicas=2").images_per_second, 4000, 120);
}

// The measurement of one data thread of 1 ms per image and two replicas of 1.44 ms on two cores. They only wait for each other.
Calibration one_thread_beside_two_replicas() {
  Calibration measured{facts(), {}};
  measured.facts.cores = 2, measured.facts.threads = 1, measured.facts.batch = 32, measured.facts.chunk = 1;
  measured.facts.devices = {.replicas = 2, .here = 2, .backend = "cpu", .threads = 1};
  constexpr double kSteps = 5, kImages = 32 * kSteps, kData = kImages * 1e-3, kStep = kImages * 1.44e-3;
  constexpr auto kCount = static_cast<std::uint64_t>(kImages);
  Window window{.seconds = kData + 0.75 * kStep / 2, .steps = kSteps};
  window.stages = {{}, {window.seconds, kCount, kCount, kData}, {0, kCount, kCount, 0}, {0, kCount, kCount, 0}};
  window.data = {kData, window.seconds - kData};
  window.device = {kStep, 0.75 * kStep / 2};
  window.device_seconds = window.device.seconds + window.device.waited;
  window.device_samples = kCount;
  measured.windows.assign(20, window);
  return measured;
}

TEST(WhatIf, TakesThreadsOfOursThatWaitForEachOtherForNoOtherPrograms) {
  const Calibration measured = one_thread_beside_two_replicas();
  const SimulatedGraph graph = graph_of(measured.facts, measured.windows);
  EXPECT_EQ(graph.other_threads, 0);
  EXPECT_NEAR(graph.step.sample_seconds, 1.44e-3, 1e-6);
  EXPECT_NEAR(Predictor(measured).simulation_error(), 0, 0.03);
  EXPECT_NEAR(answer(measured, "threads=2").images_per_second, 2 / 2.44e-3, 25);  // both cores, all the time
}

TEST(WhatIf, TakesNoMoreOfTheCoresForStagesThanDataThreadsHad) {
  Calibration measured = calibration(0.5);
  for (Window& window : measured.windows) window.stages[1].computing = window.stages[1].busy;  // one packet in many was measured
  EXPECT_NEAR(graph_of(measured.facts, measured.windows).data.stages.front().seconds, kDecode, 1e-5);
  for (Window& window : measured.windows) window.stages[1].computing = 0.1 * window.stages[1].busy;
  EXPECT_NEAR(graph_of(measured.facts, measured.windows).data.stages.front().seconds, kDecode, 1e-5);
}

TEST(WhatIf, MeasuresOtherProgramsByWhatTheyTookOfTheCores) {
  Calibration measured = one_thread_beside_two_replicas();
  for (Window& window : measured.windows) window.other_seconds = 0.5 * window.seconds;
  const Window& window = measured.windows.front();
  const double ours = window.data.seconds + window.device.seconds, waited = window.data.waited + window.device.waited;
  EXPECT_NEAR(graph_of(measured.facts, measured.windows).other_threads, 0.5 * (ours + waited) / ours, 1e-6);
  measured.facts.devices.here = 1;  // another rank computes here
  EXPECT_EQ(graph_of(measured.facts, measured.windows).other_threads, 0);
}

double width(const Prediction& found) { return (found.high - found.low) / found.images_per_second; }

TEST(WhatIf, HasAWiderBandWhereTheMachineDriftsThanWhereWindowsDifferByTurns) {
  Calibration drifts = calibration(), turns = calibration();
  for (std::size_t w = 0; w < 20; ++w)
    drifts.windows[w].seconds *= w < 10 ? 0.9 : 1.1, turns.windows[w].seconds *= w % 2 ? 0.9 : 1.1;
  EXPECT_GT(width(answer(drifts, "buffers=4")), 2 * width(answer(turns, "buffers=4")));
}

TEST(WhatIf, HasAWiderBandTheFurtherItsAnswerIsFromTheMeasurement) {
  const Calibration measured = calibration();
  EXPECT_GT(width(answer(measured, "storage_latency=20ms")), 2 * width(answer(measured, "buffers=4")));
}

TEST(WhatIf, HasABandThatHoldsWhatItSaysAndGrowsWithItsDoubt) {
  const Calibration measured = calibration();
  const Prediction threads = answer(measured, "threads=4"), image = answer(measured, "image=448,threads=4");
  EXPECT_LT(threads.low, 2000);
  EXPECT_GT(threads.high, 2000);
  EXPECT_GT(width(image), width(threads));
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
