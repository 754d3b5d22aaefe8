// The stage's changes of pixels on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "host_fixture.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

TEST_F(HostTest, NeutralMagnitudesChangeNothing) {
  params_.rotate = params_.shear_x = params_.shear_y = params_.hue = Range{0, 0};
  params_.scale = params_.scale_x = params_.scale_y = params_.brightness = params_.contrast = params_.saturation = Range{1, 1};
  params_.translate.subpixel = true;
  params_.solarise = {1, {256, 256}};
  params_.posterise = {1, {8, 8}};
  params_.sharpness = {1, {1, 1}};
  params_.noise = {1, {0, 0}};
  params_.erase = {1, 3, {0, 0}, {1, 1}, "constant"};
  for (std::uint64_t index = 0; index < 20; ++index) EXPECT_EQ(run(index), pattern(kShape));
}

TEST_F(HostTest, EveryOperationChangesSomething) {
  using P = Augment::Params;
  const auto expect_change = [&](const char* name, auto set) {
    params_ = {};
    set(params_);
    EXPECT_NE(run(), pattern(kShape)) << name;
    EXPECT_EQ(run(), run()) << name;
  };
  expect_change("rotate", [](P& p) { p.rotate = Range{10, 20}; });
  expect_change("scale", [](P& p) { p.scale = Range{1.1, 1.3}; });
  expect_change("scale_x", [](P& p) { p.scale_x = Range{0.7, 0.8}; });
  expect_change("scale_y", [](P& p) { p.scale_y = Range{0.7, 0.8}; });
  expect_change("shear_x", [](P& p) { p.shear_x = Range{10, 20}; });
  expect_change("shear_y", [](P& p) { p.shear_y = Range{10, 20}; });
  expect_change("subpixel", [](P& p) { p.translate = {{0.2, 0.3}, {0, 0}, true}; });
  expect_change("brightness", [](P& p) { p.brightness = Range{0.2, 0.5}; });
  expect_change("contrast", [](P& p) { p.contrast = Range{0.2, 0.5}; });
  expect_change("saturation", [](P& p) { p.saturation = Range{0.2, 0.5}; });
  expect_change("hue", [](P& p) { p.hue = Range{0.1, 0.3}; });
  expect_change("greyscale", [](P& p) { p.greyscale = 1; });
  expect_change("solarise", [](P& p) { p.solarise.emplace(); });
  expect_change("posterise", [](P& p) { p.posterise = {1, {2, 4}}; });
  expect_change("equalise", [](P& p) { p.equalise = 1; });
  expect_change("autocontrast", [](P& p) { p.autocontrast = 1; });
  expect_change("invert", [](P& p) { p.invert = 1; });
  expect_change("sharpness", [](P& p) { p.sharpness = {1, {0, 0.5}}; });
  expect_change("blur", [](P& p) { p.blur = {1, {1, 2}}; });
  expect_change("noise", [](P& p) { p.noise = {1, {5, 10}}; });
  expect_change("erase", [](P& p) { p.erase.emplace(); });
  expect_change("rand_augment", [](P& p) { p.rand_augment = {10, 20, 31}; });
}

TEST_F(HostTest, AQuarterTurnIsExact) {
  params_.rotate = Range{90, 90};
  const Bytes out = run(), in = pattern(kShape);
  for (std::size_t y = 0; y < 24; ++y) {
    for (std::size_t x = 0; x < 24; ++x) {
      // Counter-clockwise: the right column becomes the top row.
      for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(out[(y * 24 + x) * 3 + c], in[(x * 24 + 23 - y) * 3 + c]);
    }
  }
}

TEST_F(HostTest, HalfAPixelIsTheMeanOfTwo) {
  params_.translate = {{-0.5, -0.5}, {0, 0}, true};
  const Bytes out = run(), in = pattern(kShape);
  for (std::size_t x = 0; x < 23; ++x) EXPECT_NEAR(out[3 * x], (in[3 * x] + in[3 * x + 3]) / 2.0, 0.51);
}

TEST_F(HostTest, FlipsAndShiftsOfAWarpAreThoseOfARecord) {
  params_.flip_x = params_.flip_y = 0.5;
  params_.translate = {{-4, 4}, {-3, 3}, false};
  params_.fill = {9, 8, 7};
  for (const char* border : {"constant", "reflect", "edge"}) {
    params_.border = border;
    params_.rotate.reset();
    std::map<std::uint64_t, Bytes> recorded;
    for (std::uint64_t index = 0; index < 16; ++index) recorded[index] = run(index);
    params_.rotate = Range{360, 360};  // not the identity to the last bit of a double
    for (std::uint64_t index = 0; index < 16; ++index) EXPECT_EQ(run(index), recorded[index]) << border << index;
  }
}

TEST_F(HostTest, LeavesFlipsAndShiftsToTheDeviceUnlessAWarpIsDrawn) {
  params_.flip_x = 1;
  params_.brightness = Range{0.5, 0.5};
  Sample sample;
  show(sample, 0, pattern(kShape));
  process(Augment(params_, context_), sample);
  EXPECT_EQ(sample.record.step_x, -1);
  params_.rotate = Range{5, 5};
  show(sample, 0, pattern(kShape));
  process(Augment(params_, context_), sample);
  EXPECT_TRUE(sample.record.is_identity());
}

TEST_F(HostTest, NewOperationsLeaveTheOldDrawsAlone) {
  params_.flip_x = 0.5;
  params_.translate = {{-4, 4}, {-4, 4}, false};
  const Augment plain(params_, context_);
  params_.brightness = Range{0.5, 1.5};
  params_.erase.emplace().chance = 0.5;
  params_.trivial_augment = true;
  const Augment more(params_, context_);
  for (std::uint64_t index = 0; index < 50; ++index) {
    Sample one, two;
    show(one, index, pattern(kShape));
    show(two, index, pattern(kShape));
    EXPECT_NE(process(plain, one), process(more, two));
    if (two.record.is_identity()) continue;  // executed, because of the erased box
    EXPECT_EQ(one.record.x, two.record.x);
    EXPECT_EQ(one.record.step_x, two.record.step_x);
  }
}

TEST_F(HostTest, ClassesMoveInStepWithTheirImage) {
  // The image shows its own classes, so that the two can be compared pixel by pixel.
  Bytes labels(24 * 24), pixels(kShape.bytes());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::uint8_t>(i % 24 < 12 ? 3 : 5);
    std::fill_n(pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, static_cast<std::uint8_t>(labels[i] * 20));
  }
  params_.flip_x = 0.5;
  params_.translate = {{-4, 4}, {-4, 4}, false};
  params_.rotate = Range{-40, 40};
  params_.scale = Range{0.5, 1.5};
  params_.interpolation = "nearest";
  params_.fill = {255};
  const Augment stage(params_, context_);
  int ignored = 0;
  for (std::uint64_t index = 0; index < 40; ++index) {
    Sample sample;
    show(sample, index, pixels, kShape, &classes_, labels);
    process(stage, sample);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::uint8_t label = sample.target().data[i], level = sample.image().data[3 * i];
      ASSERT_TRUE(label == 3 || label == 5 || label == 250);
      ASSERT_EQ(level, label == 250 ? 255 : label * 20);
      ignored += label == 250;
    }
  }
  EXPECT_GT(ignored, 0);
}

TEST_F(HostTest, ClassesAreNeverInterpolated) {
  Bytes labels(24 * 24);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i % 2 == 0 ? 0 : 100);
  params_.rotate = Range{-180, 180};
  params_.shear_x = Range{-30, 30};
  params_.interpolation = "bicubic";
  for (std::uint64_t index = 0; index < 20; ++index) {
    Sample sample;
    show(sample, index, pattern(kShape), kShape, &classes_, labels);
    process(Augment(params_, context_), sample);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::uint8_t label = sample.target().data[i];
      ASSERT_TRUE(label == 0 || label == 100 || label == 250) << int{label};
    }
  }
}

TEST_F(HostTest, ATargetThatIsAnImageMovesLikeTheImageAndKeepsItsColours) {
  TargetSpec spec;
  spec.kind = TargetSpec::Kind::image;
  params_.rotate = Range{-20, 20};
  params_.flip_x = 0.5;
  Sample sample;
  show(sample, 3, pattern(kShape), kShape, &spec, pattern(kShape));
  process(Augment(params_, context_), sample);
  EXPECT_TRUE(std::equal(sample.image().data, sample.image().data + kShape.bytes(), sample.target().data));
  params_ = {};
  params_.noise = {1, {5, 5}};
  params_.brightness = Range{0.5, 0.5};
  show(sample, 3, pattern(kShape), kShape, &spec, pattern(kShape));
  process(Augment(params_, context_), sample);
  const Bytes target(sample.target().data, sample.target().data + kShape.bytes());
  EXPECT_EQ(target, pattern(kShape));
}

TEST_F(HostTest, ARecordFromAnEarlierStageIsExecutedFirst) {
  context_.window = {20, 20, 3};
  params_.flip_x = 1;
  params_.translate = {{3, 3}, {0, 0}, false};
  params_.border = "reflect";
  const Augment earlier(params_, context_);
  Sample sample;
  show(sample, 0, pattern(kShape));
  process(earlier, sample);
  Bytes expected = seen(sample.image(), sample.record, context_.window);
  params_ = {};
  params_.invert = 1;
  process(Augment(params_, context_), sample);
  EXPECT_EQ(sample.image().shape, kShape);
  for (std::uint8_t& level : expected) level = static_cast<std::uint8_t>(255 - level);
  EXPECT_EQ(seen(sample.image(), sample.record, context_.window), expected);
}

TEST_F(HostTest, WhatAnEarlierStageHasFilledKeepsItsBorder) {
  Augment::Params first, second;
  first.translate.x = {5, 5};
  first.border = "edge";
  second.flip_x = 1;
  second.fill = {200};
  Sample sample;
  show(sample, 0, pattern(kShape));
  process(Augment(first, context_), sample);
  const Bytes shifted = seen(sample.image(), sample.record, kShape);
  process(Augment(second, context_), sample);
  place_window(sample, kShape);
  AugmentationRecord mirror;
  mirror.flip_x(kShape.width);
  EXPECT_EQ(seen(sample.image(), sample.record, kShape), seen({shifted.data(), kShape}, mirror, kShape));
}

TEST_F(HostTest, ErasesTheAreaItWasAskedTo) {
  params_.erase = {1, 1, {0.25, 0.25}, {1, 1}, "constant"};
  params_.fill = {251};
  std::set<std::size_t> corners;
  for (std::uint64_t index = 0; index < 60; ++index) {
    const Bytes out = run(index);
    EXPECT_EQ(std::count(out.begin(), out.end(), 251), 12 * 12 * 3);
    corners.insert(static_cast<std::size_t>(std::find(out.begin(), out.end(), 251) - out.begin()));
  }
  EXPECT_GT(corners.size(), 30U);
}

TEST_F(HostTest, ErasesWithinWhatTheNetworkSees) {
  context_.window = {8, 8, 3};
  params_.erase = {1, 1, {1, 1}, {1, 1}, "constant"};
  params_.fill = {251};
  params_.flip_x = 1;
  params_.translate = {{5, 5}, {-3, -3}, false};
  EXPECT_EQ(run(), Bytes(8 * 8 * 3, 251));
}

TEST_F(HostTest, ErasesAsOftenAsItsChanceSays) {
  params_.erase = {0.25, 1, {0.1, 0.1}, {1, 1}, "constant"};
  int erased = 0;
  for (std::uint64_t index = 0; index < 1000; ++index) erased += run(index) != pattern(kShape);
  EXPECT_NEAR(erased, 250, 55);
}

TEST_F(HostTest, ErasesWithMeanOrNoise) {
  params_.erase = {1, 1, {1, 1}, {1, 1}, "mean"};
  const Bytes mean = run();
  EXPECT_EQ(std::count(mean.begin(), mean.end(), mean[0]),
            24 * 24 + (mean[1] == mean[0] ? 576 : 0) + (mean[2] == mean[0] ? 576 : 0));
  params_.erase->value = "noise";
  const Bytes noise = run();
  const std::set<std::uint8_t> levels(noise.begin(), noise.end());
  EXPECT_GT(levels.size(), 200U);
}

TEST_F(HostTest, ErasingKeepsTheTarget) {
  const Bytes labels(24 * 24, 7);
  params_.erase = {1, 1, {1, 1}, {1, 1}, "constant"};
  Sample sample;
  show(sample, 0, pattern(kShape), kShape, &classes_, labels);
  process(Augment(params_, context_), sample);
  EXPECT_EQ(Bytes(sample.target().data, sample.target().data + labels.size()), labels);
}

TEST_F(HostTest, PoliciesUseEveryOperationAlike) {
  // The chosen operation is not visible from outside; the frequency of unchanged images is. Of 14 operations 1 is the identity.
  params_.trivial_augment = true;
  int same = 0;
  for (std::uint64_t index = 0; index < 2000; ++index) same += run(index) == pattern(kShape);
  EXPECT_GT(same, 2000 / 14);  // bins of magnitude 0 leave the image unchanged too
  EXPECT_LT(same, 2000 / 14 + 2000 / 10);
}

TEST_F(HostTest, PoliciesMoveTheTargetToo) {
  params_.rand_augment = {2, 30, 31};
  params_.fill = {255};
  Bytes labels(24 * 24);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i % 24 < 12 ? 3 : 5);
  int moved = 0;
  for (std::uint64_t index = 0; index < 50; ++index) {
    Sample sample;
    show(sample, index, pattern(kShape), kShape, &classes_, labels);
    process(Augment(params_, context_), sample);
    const Bytes out(sample.target().data, sample.target().data + labels.size());
    moved += out != labels;
    for (const std::uint8_t label : out) ASSERT_TRUE(label == 3 || label == 5 || label == 250);
  }
  EXPECT_GT(moved, 20);  // 5 of 14 operations move; one of two does so in 59 of 100
  EXPECT_LT(moved, 40);
}

TEST_F(HostTest, TakesGreyImages) {
  context_.image = context_.window = {9, 9, 1};
  params_.rand_augment = {14, 25, 31};
  params_.trivial_augment = true;
  params_.saturation = params_.brightness = Range{0.5, 1.5};
  params_.hue = Range{-0.5, 0.5};
  params_.greyscale = params_.equalise = 0.5;
  params_.noise.emplace().chance = params_.blur.emplace().chance = params_.erase.emplace().chance = 0.5;
  params_.rotate = Range{-90, 90};
  for (std::uint64_t index = 0; index < 200; ++index) run(index, {9, 9, 1});
}

TEST_F(HostTest, RefusesPartsOfABit) {
  params_.posterise.emplace().bits = {2.5, 4};
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { const Augment stage(params_, context_); }).message());
}

// A written table is active: only `chance` in it can disable it.
TEST_F(HostTest, ATableAppliesToEveryImageUnlessItSaysOtherwise) {
  for (const char* name : {"solarise", "posterise", "sharpness", "blur", "noise", "erase", "rand_augment"}) {
    Diagnostics errors;
    ParamSet<Augment::Params> set;
    describe(set);
    params_ = read_struct(set, Value(Table{{name, {}, Value()}}), "[train.augment]", errors);
    EXPECT_TRUE(errors.empty()) << errors.text();
    int changed = 0;
    for (std::uint64_t index = 0; index < 20; ++index) changed += run(index) != pattern(kShape);
    EXPECT_GT(changed, 10) << name;
  }
}

TEST_F(HostTest, RefusesAMagnitudeBeyondItsBins) {
  params_.rand_augment = {2, 31, 31};
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { const Augment stage(params_, context_); }).message());
}

}  // namespace
}  // namespace millrace
