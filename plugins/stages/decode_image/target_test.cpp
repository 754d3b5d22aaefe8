// An image and its target stay aligned.
#include <cstring>
#include <string>

#include "decode_image_fixture.h"
#include "testkit/files.h"
#include "testkit/harness.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

// An image that encodes the positions of its pixels (smooth, so that JPEG keeps it), and labels that do so exactly.
class TargetTest : public DecodeImageTest {
 protected:
  void read(const Bytes& image, const Bytes& target, TargetSpec::Kind kind = TargetSpec::Kind::classes) {
    spec_.kind = kind;
    for (std::size_t i = 0; i < 256; ++i) spec_.classes[i] = static_cast<std::uint8_t>(i);
    sample_.reset({}, {}, spec_);
    std::memcpy(sample_.encoded.resize(image.size()), image.data(), image.size());
    std::memcpy(sample_.encoded_target.resize(target.size()), target.data(), target.size());
  }
  static testing_png::Recipe labels(int height, int width) {
    testing_png::Recipe recipe{.height = height, .width = width, .colour = testing_png::Colour::grey};
    for (int i = 0; i < height * width; ++i) recipe.values.push_back(static_cast<std::uint16_t>(200 * (i / width) / height));
    return recipe;
  }
  void process(const DecodeImage::Params& params, std::uint64_t position = 0) {
    DecodeImage stage(params, context_);
    SampleKey key;
    key.position = position;
    Draw draw(1, key, 0);
    stage.process(sample_, draw);
  }
  std::string fault(const DecodeImage::Params& params = {}) {
    return testkit::error_of(ErrorKind::content, [&] { process(params); }).what();
  }

  TargetSpec spec_;
};

TEST_F(TargetTest, ValuesBecomeClassesExactly) {
  testing_png::Recipe recipe{.height = 16, .width = 16, .colour = testing_png::Colour::grey};
  for (int i = 0; i < 256; ++i) recipe.values.push_back(static_cast<std::uint16_t>(i));
  read(encode(Recipe{}), encode(recipe));
  for (std::size_t i = 0; i < 256; ++i) spec_.classes[i] = i % 2 == 0 ? 255 : static_cast<std::uint8_t>(i / 2);
  process({});
  ASSERT_EQ(sample_.target().shape, (ImageShape{16, 16, 1}));
  for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(sample_.target().data[i], spec_.classes[i]);
}

TEST_F(TargetTest, ColoursBecomeClassesWhereClassesHaveColours) {
  testing_png::Recipe recipe{.height = 1, .width = 3};
  recipe.values = {128, 0, 0, 0, 0, 255, 1, 2, 3};
  const Bytes image = encode(Recipe{.height = 1, .width = 3}), labels = encode(recipe);
  context_.colours = {"#0000ff", "#800000"};
  context_.target.kind = TargetSpec::Kind::classes;
  context_.target.classes.fill(255);
  context_.target.classes[7] = 0;
  context_.target.classes[0] = 1;
  read(image, labels);
  spec_ = context_.target;
  process({});
  EXPECT_EQ(std::vector<std::uint8_t>(sample_.target().data, sample_.target().data + 3), (std::vector<std::uint8_t>{1, 0, 255}));
}

TEST_F(TargetTest, TheSamePartIsTakenOfImageAndTarget) {
  DecodeImage::Params params;
  params.size = Size{24, 24};
  params.random_resized_crop.area = {0.08, 1};
  for (std::uint64_t position = 0; position < 50; ++position) {
    read(encode(Recipe{.height = 120, .width = 160}), encode(labels(120, 160)));
    process(params, position);
    ASSERT_EQ(sample_.image().shape, (ImageShape{24, 24, 3}));
    ASSERT_EQ(sample_.target().shape, (ImageShape{24, 24, 1}));
    for (std::size_t i = 0; i < 24 * 24; ++i) {  // the first channel of the picture and the labels count rows, to 255 and to 200
      ASSERT_NEAR(sample_.image().data[3 * i] / 255.0, sample_.target().data[i] / 200.0, 0.03) << position;
    }
  }
}

TEST_F(TargetTest, AnImageToBeReproducedIsDecodedLikeTheImage) {
  const Bytes bytes = encode(Recipe{.height = 40, .width = 50});
  read(bytes, bytes, TargetSpec::Kind::image);
  DecodeImage::Params params;
  params.short_side = 20;
  process(params);
  ASSERT_EQ(sample_.target().shape, (ImageShape{20, 25, 3}));
  EXPECT_EQ(std::memcmp(sample_.target().data, sample_.image().data, sample_.image().shape.bytes()), 0);
}

// A tool that writes both with the camera's tag stores both alike, so they agree when both are turned.
TEST_F(TargetTest, LabelsAreTurnedByTheirOwnTag) {
  const std::vector<std::uint8_t> turned_labels = [] {
    testing_png::Recipe recipe = labels(40, 50);
    recipe.orientation = 6;
    return encode(recipe);
  }();
  read(encode(Recipe{.height = 40, .width = 50, .orientation = 6}), turned_labels);
  process({});
  ASSERT_EQ(sample_.image().shape, (ImageShape{50, 40, 3}));
  ASSERT_EQ(sample_.target().shape, (ImageShape{50, 40, 1}));
  for (std::size_t i = 0; i < 50 * 40; ++i) {
    ASSERT_NEAR(sample_.image().data[3 * i] / 255.0, sample_.target().data[i] / 200.0, 0.03);
    ASSERT_EQ(sample_.target().data[i], 200 * (39 - i % 40) / 40);  // stored rows are columns, from the right
  }
  DecodeImage::Params as_stored;
  as_stored.exif = false;
  read(encode(Recipe{.height = 40, .width = 50, .orientation = 6}), turned_labels);
  process(as_stored);
  ASSERT_EQ(sample_.target().shape, (ImageShape{40, 50, 1}));
  read(encode(Recipe{.height = 40, .width = 50, .orientation = 6}), encode(labels(40, 50)));
  EXPECT_MESSAGE(fault());
}

TEST_F(TargetTest, AnImageThatIsTurnedWithoutItsTargetIsNamedWhereSizesDoNotTell) {
  testkit::RecordedRun run;
  context_.run = &run;
  DecodeImage stage({}, context_);
  const auto show = [&](const Bytes& image, const Bytes& target) {
    read(image, target);
    Draw draw(1, {}, 0);
    stage.process(sample_, draw);
    return run.warnings().size();
  };
  EXPECT_EQ(show(encode(Recipe{.height = 40, .width = 50, .orientation = 6}), encode(labels(50, 40))), 0U) << "the sizes tell";
  testing_png::Recipe turned_labels = labels(40, 40);
  turned_labels.orientation = 3;
  EXPECT_EQ(show(encode(Recipe{.height = 40, .width = 40, .orientation = 3}), encode(turned_labels)), 0U);
  EXPECT_EQ(show(encode(Recipe{.height = 40, .width = 50, .orientation = 3}), encode(labels(40, 50))), 1U);
  EXPECT_EQ(show(encode(Recipe{.height = 40, .width = 40, .orientation = 6}), encode(labels(40, 40))), 1U) << "once";
  EXPECT_MESSAGE(run.warnings()[0]);
}

TEST_F(TargetTest, SizesThatDifferAreABadSample) {
  read(encode(Recipe{.height = 40, .width = 50}), encode(labels(50, 40)));
  EXPECT_MESSAGE(fault());
}

TEST_F(TargetTest, WhatIsWrongWithATargetSaysSo) {
  Bytes cut_off = encode(labels(16, 16));
  cut_off.resize(cut_off.size() - 40);
  read(encode(Recipe{}), cut_off);
  EXPECT_MESSAGE(fault());
  read(encode(Recipe{}), encode(Recipe{}));
  EXPECT_MESSAGE(fault());
}

TEST_F(TargetTest, AFileOfItsOwnIsNamed) {
  Bytes cut_off = encode(labels(16, 16));
  cut_off.resize(cut_off.size() - 40);
  read(encode(Recipe{}), cut_off);
  sample_.target_url = "labels/1.png";
  EXPECT_MESSAGE(fault());
  read(encode(Recipe{}), encode(Recipe{}));
  sample_.target_url = "labels/1.png";
  EXPECT_MESSAGE(fault());
  read(encode(Recipe{.height = 40, .width = 50}), encode(labels(50, 40)));
  sample_.target_url = "labels/1.png";
  EXPECT_MESSAGE(fault());
}

TEST_F(TargetTest, TheSamePartIsTakenOfALargerTarget) {
  spec_.scale = 2;
  for (const bool jpeg : {false, true}) {
    for (std::uint64_t position = 0; position < 12; ++position) {
      DecodeImage::Params params;
      params.size = Size{24, 20};
      if (position == 0) params.fit = "exact";
      if (position == 1) params.crop = "centre";
      if (position == 2) params.crop = "centre", params.short_side = 30;
      if (position > 2) params.random_resized_crop.area = {0.08, 1};
      const Bytes target = jpeg ? encode(Recipe{.height = 240, .width = 320}) : encode(labels(240, 320));
      read(encode(Recipe{.height = 120, .width = 160}), target, jpeg ? TargetSpec::Kind::image : TargetSpec::Kind::classes);
      process(params, position);
      ASSERT_EQ(sample_.image().shape, (ImageShape{24, 20, 3}));
      ASSERT_EQ(sample_.target().shape, (ImageShape{48, 40, jpeg ? 3 : 1}));
      const int channels = jpeg ? 3 : 1, most = jpeg ? 255 : 200;
      for (int i = 0; i < 24 * 20; ++i) {
        const std::uint8_t* first = sample_.target().data + (i / 20 * 80 + i % 20 * 2) * channels;
        const int sum = first[0] + first[channels] + first[40 * channels] + first[41 * channels];
        ASSERT_NEAR(sample_.image().data[3 * i] / 255.0, sum / 4.0 / most, 0.02) << position << ' ' << i;
      }
    }
  }
}

TEST_F(TargetTest, ATargetThatIsNotSoManyTimesAsLargeIsABadSample) {
  spec_.scale = 2;
  read(encode(Recipe{.height = 40, .width = 50}), encode(labels(80, 90)));
  sample_.target_url = "labels/1.png";
  EXPECT_MESSAGE(fault());
}

TEST_F(TargetTest, AnImageIsMadeSmallerThanWhatItIsToBecome) {
  spec_.scale = 2;
  context_.target.scale = 2;
  testing_png::Recipe recipe{.height = 41, .width = 50};
  for (int i = 0; i < 41 * 50 * 3; ++i) recipe.values.push_back(static_cast<std::uint16_t>(i * i % 251));
  const Bytes bytes = encode(recipe);
  read(bytes, bytes, TargetSpec::Kind::image);
  DecodeImage::Params params;
  params.shrink = "bicubic";
  process(params);
  const Bytes whole(recipe.values.begin(), recipe.values.begin() + 40 * 50 * 3);  // an odd row is left out
  ASSERT_EQ(sample_.target().shape, (ImageShape{40, 50, 3}));
  EXPECT_EQ(Bytes(sample_.target().data, sample_.target().data + whole.size()), whole);
  ASSERT_EQ(sample_.image().shape, (ImageShape{20, 25, 3}));
  Bytes smaller(std::size_t{20} * 25 * 3);
  Resampler().resize(rows_of({whole.data(), {40, 50, 3}}), {0, 0, 50, 40}, ResampleFilter::bicubic, {20, 25, 3}, smaller.data());
  EXPECT_EQ(Bytes(sample_.image().data, sample_.image().data + smaller.size()), smaller);
  EXPECT_EQ(sample_.source_map().height, 41);
  EXPECT_EQ(sample_.source_map().map.xx, 2);
}

TEST_F(TargetTest, APartOfAShrunkImageAndOfItsTargetAreOnePart) {
  spec_.scale = 3;
  context_.target.scale = 3;
  DecodeImage::Params params;
  params.shrink = "bilinear";
  params.size = Size{16, 20};
  params.crop = "centre";
  const Bytes bytes = encode(Recipe{.height = 120, .width = 160});
  read(bytes, bytes, TargetSpec::Kind::image);
  process(params);
  ASSERT_EQ(sample_.image().shape, (ImageShape{16, 20, 3}));
  ASSERT_EQ(sample_.target().shape, (ImageShape{48, 60, 3}));
  for (int i = 0; i < 16 * 20; ++i) {  // against the pixel in the middle of the nine
    ASSERT_NEAR(sample_.image().data[3 * i], sample_.target().data[3 * ((i / 20 * 3 + 1) * 60 + i % 20 * 3 + 1)], 8) << i;
  }
}

TEST_F(TargetTest, SaysHowAnImageBecomesSmallerThanItsTarget) {
  spec_.scale = 2;
  const Bytes bytes = encode(Recipe{.height = 40, .width = 50});
  read(bytes, bytes, TargetSpec::Kind::image);
  EXPECT_MESSAGE(fault());
  DecodeImage::Params params;
  params.shrink = "bicubic";
  EXPECT_MESSAGE(testkit::error_of([&] { DecodeImage(params, context_); }).message());
  context_.target.scale = 2;
  const Bytes thin = encode(Recipe{.height = 1, .width = 50});
  read(thin, thin, TargetSpec::Kind::image);
  EXPECT_MESSAGE(fault(params));
}

TEST_F(TargetTest, PixelsOfALargerTargetAreUsedAsTheyAre) {
  spec_.scale = 2;
  const Bytes pixels = gradient(6, 5, 3), classes(120, 3);
  read(pixels, classes);
  sample_.decoded = {6, 5, 3};
  process({});
  ASSERT_EQ(sample_.target().shape, (ImageShape{12, 10, 1}));
  EXPECT_EQ(Bytes(sample_.target().data, sample_.target().data + 120), classes);
}

TEST_F(TargetTest, PixelsThatAreDecodedAlreadyAreUsedAsTheyAre) {
  Bytes pixels = gradient(12, 12, 3), classes(144, 3);
  classes[5] = 7;
  read(pixels, classes);
  sample_.decoded = {12, 12, 3};
  process({});
  EXPECT_EQ(Bytes(sample_.image().data, sample_.image().data + 432), pixels);
  EXPECT_EQ(Bytes(sample_.target().data, sample_.target().data + 144), classes);
}

}  // namespace
}  // namespace millrace
