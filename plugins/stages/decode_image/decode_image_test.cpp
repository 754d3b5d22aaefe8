#include "decode_image.h"

#include <atomic>
#include <cstring>
#include <string>

#include "decode_image_fixture.h"
#include "image_file.h"
#include "testkit/files.h"
#include "testkit/harness.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST_F(DecodeImageTest, DecodesBaselineAndProgressiveToTheSamePixels) {
  const Bytes baseline = decode(encode({.height = 37, .width = 53}));
  EXPECT_EQ(sample_.image().shape, (ImageShape{37, 53, 3}));
  EXPECT_LT(distance(baseline, gradient(37, 53, 3)), 2);
  EXPECT_EQ(decode(encode({.height = 37, .width = 53, .progressive = true})), baseline);
}

TEST_F(DecodeImageTest, GreyBecomesThreeEqualChannels) {
  const Bytes pixels = decode(encode({.kind = Kind::grey}));
  const Bytes grey = gradient(16, 16, 1);
  Bytes expected;
  for (const std::uint8_t value : grey) expected.insert(expected.end(), 3, value);
  EXPECT_LT(distance(pixels, expected), 2);
  EXPECT_EQ(pixels[0], pixels[1]);
}

TEST_F(DecodeImageTest, OneChannelIsTheLuminance) {
  DecodeImage::Params params;
  params.channels = 1;
  const Bytes pixels = decode(encode({}), params);
  EXPECT_EQ(sample_.image().shape, (ImageShape{16, 16, 1}));
  const Bytes rgb = gradient(16, 16, 3);
  Bytes expected;
  for (std::size_t i = 0; i < 256; ++i) {
    expected.push_back(static_cast<std::uint8_t>(0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2]));
  }
  EXPECT_LT(distance(pixels, expected), 2);
  EXPECT_LT(distance(decode(encode({.kind = Kind::grey}), params), gradient(16, 16, 1)), 2);
}

TEST_F(DecodeImageTest, KnowsWhatAnImageIsAsAFile) {
  const auto facts = [&](const Bytes& bytes) {
    decode(bytes);
    return DecodeImage({}, context_).facts(sample_);
  };
  const ImageFacts grey = facts(encode({.height = 37, .width = 53, .kind = Kind::grey}));
  EXPECT_EQ(grey.format, "JPEG");
  EXPECT_EQ(grey.height, 37);
  EXPECT_EQ(grey.width, 53);
  EXPECT_EQ(grey.channels, 1);
  EXPECT_EQ(grey.bits, 8);
  EXPECT_EQ(facts(encode({})).channels, 3);
  EXPECT_GT(grey.mean, grey.least);
  EXPECT_LT(grey.mean, grey.most);
  EXPECT_GT(grey.deviation, 0);
}

// Pillow's convert("RGB") of such files is (96, 191, 191), with the marker and without.
TEST_F(DecodeImageTest, InksAreInvertedWithAndWithoutAdobesMarker) {
  // Half of the cyan ink and a quarter of the black, as the light that they let through: red is 127 * 191 / 255.
  const Bytes light = {127, 255, 255, 191};
  Recipe recipe{.kind = Kind::cmyk, .adobe = false};
  for (int i = 0; i < 256; ++i) recipe.pixels.insert(recipe.pixels.end(), light.begin(), light.end());
  Bytes expected;
  for (int i = 0; i < 256; ++i) expected.insert(expected.end(), {95, 191, 191});
  EXPECT_LT(distance(decode(encode(recipe)), expected), 1.5);

  recipe.adobe = true;
  EXPECT_LT(distance(decode(encode(recipe)), expected), 1.5);
  recipe.kind = Kind::ycck;
  EXPECT_LT(distance(decode(encode(recipe)), expected), 1.5);

  DecodeImage::Params grey;
  grey.channels = 1;
  EXPECT_LT(distance(decode(encode(recipe), grey), Bytes(256, 162)), 1.5);
}

TEST_F(DecodeImageTest, WritesIntoTheBatchesSlot) {
  Bytes slot(16 * 16 * 3);
  DecodeImage stage({}, context_);
  const Bytes bytes = encode({});
  sample_.reset({}, {slot.data(), {16, 16, 3}});
  std::memcpy(sample_.encoded.resize(bytes.size()), bytes.data(), bytes.size());
  Draw draw(1, {}, 0);
  stage.process(sample_, draw);
  EXPECT_EQ(sample_.image().data, slot.data());
  EXPECT_LT(distance(slot, gradient(16, 16, 3)), 2);
}

TEST_F(DecodeImageTest, ASizeIsAPromise) {
  EXPECT_EQ(DecodeImage({}, context_).image_shape(), (ImageShape{0, 0, 3}));
  DecodeImage::Params params;
  params.size = Size{16, 20};
  EXPECT_EQ(DecodeImage(params, context_).image_shape(), (ImageShape{16, 20, 3}));
  EXPECT_EQ(decode(encode({.height = 16, .width = 20}), params).size(), 16U * 20 * 3);
  EXPECT_MESSAGE(error_of(encode({.height = 20, .width = 16}), params));
}

TEST_F(DecodeImageTest, ASizeThatTheSourceContradictsIsRefused) {
  DecodeImage::Params params;
  params.size = Size{16, 20};
  DataContext context = context_;
  context.image = {16, 20, 3};
  EXPECT_NO_THROW(DecodeImage(params, context));
  context.image = {28, 28, 3};
  const Error error = testkit::error_of(ErrorKind::usage, [&] { DecodeImage(params, context); });
  EXPECT_MESSAGE(error.what());
  params.fit = "exact";
  EXPECT_NO_THROW(DecodeImage(params, context));
}

TEST_F(DecodeImageTest, AnImageOfAnotherSizeDoesNotSpoilTheNext) {
  DecodeImage::Params params;
  params.size = Size{16, 20};
  const Bytes good = encode({.height = 16, .width = 20});
  const Bytes expected = decode(good, params);
  EXPECT_NE(error_of(encode({.height = 20, .width = 16}), params), "nothing was thrown");
  EXPECT_EQ(decode(good, params), expected);
}

TEST_F(DecodeImageTest, EveryTruncationIsFoundOrAllowed) {
  for (const bool progressive : {false, true}) {
    const Bytes whole = encode({.height = 24, .width = 24, .progressive = progressive});
    const Bytes expected = decode(whole);
    DecodeImage::Params lenient;
    lenient.allow_warnings = true;
    int decoded = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      if (error_of(part) == "nothing was thrown") {  // except the end marker
        ASSERT_EQ(decode(part), expected) << size;
      }
      decoded += error_of(part, lenient) == "nothing was thrown";
    }
    EXPECT_GT(decoded, 50);
  }
  const Bytes whole = encode({});
  EXPECT_MESSAGE(error_of(Bytes(whole.begin(), whole.end() - 40)));
}

TEST_F(DecodeImageTest, SaysWhatTheFileIsInstead) {
  const auto bytes_of = [](std::string_view text) { return Bytes(text.begin(), text.end()); };
  EXPECT_MESSAGE(error_of(bytes_of("\x89PNG\r\n\x1a\nrest")));
  EXPECT_MESSAGE(error_of(bytes_of("<!DOCTYPE html><html>")));
  EXPECT_MESSAGE(error_of(bytes_of("RIFF....WEBPVP8 ")));
  EXPECT_MESSAGE(error_of({}));
  EXPECT_MESSAGE(error_of(bytes_of("abcdef")));
  EXPECT_MESSAGE(error_of({0xff}));
}

TEST_F(DecodeImageTest, TooManyPixelsAreRefusedFromTheHeader) {
  Bytes bytes = encode({});
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i) {
    if (bytes[i] == 0xff && bytes[i + 1] == 0xc0) {  // the frame header: write 65,000 x 65,000 into it
      bytes[i + 5] = bytes[i + 7] = 0xfd;
      bytes[i + 6] = bytes[i + 8] = 0xe8;
      break;
    }
  }
  EXPECT_MESSAGE(error_of(bytes));
  EXPECT_EQ(sample_.image().data, nullptr);
}

// A progressive image with a repeated last scan: legal, and each scan costs a pass over the image.
Bytes with_scans(const Bytes& progressive, int more) {
  std::size_t scan = 0;
  for (std::size_t i = 0; i + 1 < progressive.size(); ++i) {
    if (progressive[i] == 0xff && progressive[i + 1] == 0xda) scan = i;
  }
  const auto at = [&](std::size_t i) { return progressive.begin() + static_cast<std::ptrdiff_t>(i); };
  Bytes bytes(progressive.begin(), progressive.end() - 2);
  for (int i = 0; i < more; ++i) bytes.insert(bytes.end(), at(scan), progressive.end() - 2);
  bytes.insert(bytes.end(), {0xff, 0xd9});
  return bytes;
}

TEST_F(DecodeImageTest, TooManyScansAreRefused) {
  const Bytes image = encode({.progressive = true});
  DecodeImage::Params lenient;  // libjpeg warns of repeated refinement
  lenient.allow_warnings = true;
  EXPECT_EQ(error_of(with_scans(image, 20), lenient), "nothing was thrown");
  EXPECT_MESSAGE(error_of(with_scans(image, 200), lenient));
  EXPECT_MESSAGE(error_of(encode({.many_scans = true})));
  lenient.max_scans = 1000;
  EXPECT_EQ(error_of(with_scans(image, 200), lenient), "nothing was thrown");
}

TEST_F(DecodeImageTest, OtherPrecisionsAreNamed) {
  Bytes bytes = encode({});
  for (std::size_t i = 0; i + 4 < bytes.size(); ++i) {
    if (bytes[i] == 0xff && bytes[i + 1] == 0xc0) {
      bytes[i + 4] = 12;
      break;
    }
  }
  EXPECT_MESSAGE(error_of(bytes));
}

TEST_F(DecodeImageTest, ThePartDependsOnTheDrawsAlone) {
  // The same picture as JPEG, PNG and pixels: the same part of each.
  const Bytes jpeg = encode({.height = 90, .width = 120, .quality = 100}), pixels = decode(jpeg);
  testing_png::Recipe recipe{.height = 90, .width = 120};
  recipe.values.assign(pixels.begin(), pixels.end());
  DecodeImage::Params params;
  params.size = Size{32, 32};
  params.random_resized_crop.area = {0.08, 1};
  DecodeImage stage(params, context_);
  const auto part = [&](const Bytes& bytes, ImageShape decoded, std::uint64_t position, std::uint64_t& drawn) {
    sample_.reset({}, {});
    std::memcpy(sample_.encoded.resize(bytes.size()), bytes.data(), bytes.size());
    sample_.decoded = decoded;
    SampleKey key;
    key.position = position;
    Draw draw(1, key, 0);
    stage.process(sample_, draw);
    drawn = draw.hash();
    return Bytes(sample_.image().data, sample_.image().data + sample_.image().shape.bytes());
  };
  for (std::uint64_t position = 0; position < 20; ++position) {
    std::uint64_t draws[3];
    const Bytes of_jpeg = part(jpeg, {}, position, draws[0]), of_png = part(encode(recipe), {}, position, draws[1]);
    EXPECT_EQ(of_png, part(pixels, {90, 120, 3}, position, draws[2]));
    EXPECT_LT(distance(of_jpeg, of_png), 1.0);  // the JPEG may have been decoded at half its size
    EXPECT_TRUE(draws[0] == draws[1] && draws[1] == draws[2]);
  }
}

TEST_F(DecodeImageTest, TheMiddleOfAResizedImageIsWhatResizeAndCropGive) {
  const Bytes jpeg = encode({.height = 90, .width = 121});
  Bytes pixels = decode(jpeg), resized(64 * 86 * 3), middle;
  Resampler().resize({pixels.data(), {90, 121, 3}}, {64, 86, 3}, resized.data());
  for (std::size_t row = 4; row < 60; ++row)
    middle.insert(middle.end(), resized.begin() + static_cast<int>((row * 86 + 15) * 3),
                  resized.begin() + static_cast<int>((row * 86 + 71) * 3));
  DecodeImage::Params params;
  params.size = Size{56, 56};
  params.short_side = 64;
  params.crop = "centre";
  const Bytes found = decode(jpeg, params);
  ASSERT_EQ(found.size(), middle.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], middle[i], 1);
}

TEST_F(DecodeImageTest, ProportionsOfAFileDoNotDecideHowMuchMemoryItTakes) {
  DecodeImage::Params params;
  params.short_side = 64;
  params.max_pixels = 64 * 400;
  EXPECT_EQ(decode(encode({.height = 4, .width = 25}), params).size(), std::size_t{64 * 400 * 3});
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { decode(encode({.height = 4, .width = 26}), params); }).message());
}

TEST_F(DecodeImageTest, TwoChannelsAreAMistake) {
  DecodeImage::Params params;
  params.channels = 2;
  EXPECT_THROW(DecodeImage(params, context_), Error);
}

// 12 bits in 16, as cameras and scanners store them.
TEST_F(DecodeImageTest, SaysThatImagesOf16BitsHoldValuesOfFewer) {
  const auto image_of = [](int depth, int most, int least = 0) {
    testing_png::Recipe recipe{.height = 4, .width = 4, .colour = testing_png::Colour::grey, .depth = depth};
    for (int i = 1; i <= 16; ++i) recipe.values.push_back(static_cast<std::uint16_t>(least + (most - least) * i / 16));
    return encode(recipe);
  };
  const auto warnings = [&](const std::vector<Bytes>& images) {
    testkit::RecordedRun run;
    context_.run = &run;
    DecodeImage stage({}, context_);
    for (int round = 0; round < 40; ++round) {
      const Bytes& bytes = images[static_cast<std::size_t>(round) % images.size()];
      sample_.reset({}, {});
      std::memcpy(sample_.encoded.resize(bytes.size()), bytes.data(), bytes.size());
      Draw draw(1, {}, 0);
      stage.process(sample_, draw);
    }
    return run.warnings();
  };
  const std::vector<std::string> found = warnings({image_of(16, 4095)});
  ASSERT_EQ(found.size(), 1U) << "once";
  EXPECT_NE(found[0].find("the first 16 images of 16 bits are nearly black"), std::string::npos) << found[0];
  EXPECT_NE(found[0].find("none above about 4112"), std::string::npos) << found[0];
  EXPECT_TRUE(warnings({image_of(16, 4095), image_of(16, 60'000)}).empty()) << "some are bright";
  EXPECT_TRUE(warnings({image_of(8, 20)}).empty()) << "the night is dark";
  const std::vector<std::string> flat = warnings({image_of(16, 33'500, 32'768)});  // a tomograph's 0 is 32768
  ASSERT_EQ(flat.size(), 1U);
  EXPECT_MESSAGE(flat[0]);
  EXPECT_TRUE(warnings({image_of(16, 33'500, 32'768), image_of(16, 40'000, 32'768)}).empty()) << "some have contrast";
}

}  // namespace
}  // namespace millrace
