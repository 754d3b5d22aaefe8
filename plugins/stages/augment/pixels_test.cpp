// Tests of single operations on pixels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "colour.h"
#include "filters.h"
#include "tone.h"

namespace millrace {
namespace {

using Json = nlohmann::json;
using Bytes = std::vector<std::uint8_t>;
using Change = std::function<void(const Image&)>;

Bytes pattern(ImageShape shape) {
  Bytes pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>((i * i * 7 + i * 13 + (i >> 3) * 5) % 251);
  return pixels;
}

Bytes changed(Bytes pixels, ImageShape shape, const Change& change) {
  change({pixels.data(), shape});
  return pixels;
}

Change with(void (*apply)(const Image&, double), double value) {
  return [=](const Image& image) { apply(image, value); };
}

Change sharpened(double factor) {
  return [factor](const Image& image) {
    Bytes out(image.shape.bytes());
    filters::sharpness(image, factor, {out.data(), image.shape});
    std::copy(out.begin(), out.end(), image.data);
  };
}

Change blurred(double sigma) {
  return [sigma](const Image& image) { filters::blur(image, sigma, image); };
}

Change posterised(int bits) {
  return [bits](const Image& image) { tone::posterise(image, bits); };
}

const std::map<std::string, std::function<Change(double)>> kChanges = {
    {"greyscale", [](double) { return Change(&colour::greyscale); }},
    {"invert", [](double) { return Change(&tone::invert); }},
    {"equalise", [](double) { return Change(&tone::equalise); }},
    {"autocontrast", [](double) { return Change(&tone::autocontrast); }},
    {"solarise", [](double v) { return with(&tone::solarise, v); }},
    {"posterise", [](double v) { return posterised(static_cast<int>(v)); }},
    {"blur", [](double v) { return blurred(v); }},
    {"brightness", [](double v) { return with(&colour::brightness, v); }},
    {"contrast", [](double v) { return with(&colour::contrast, v); }},
    {"saturation", [](double v) { return with(&colour::saturation, v); }},
    {"sharpness", [](double v) { return sharpened(v); }},
    {"hue", [](double v) { return with(&colour::hue, v); }},
};

TEST(Colours, AreWithinOneGreyLevelOfTorchvision) {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/tests/reference/augment.json");
  const Json reference = Json::parse(file);
  const ImageShape small{reference["height"], reference["width"], 3}, large{32, 32, 3};
  Bytes crowded(large.bytes());
  for (std::size_t i = 0; i < crowded.size(); ++i) crowded[i] = static_cast<std::uint8_t>(i * i % 97 + i % 31);
  EXPECT_EQ(reference["colour"].size(), 23U);
  for (const auto& [key, value] : reference["colour"].items()) {
    const Bytes expected = value;
    const std::string name = key.substr(0, key.find(' '));
    const double parameter = std::atof(key.substr(std::min(key.size(), name.size())).c_str());
    Bytes pixels = key == "equalise crowded" ? crowded : pattern(small);
    if (name == "autocontrast") {
      for (std::uint8_t& level : pixels) level = static_cast<std::uint8_t>(level / 2 + 30);
    }
    const Bytes out = changed(pixels, key == "equalise crowded" ? large : small, kChanges.at(name)(parameter));
    ASSERT_EQ(out.size(), expected.size()) << key;
    int most = 0;
    for (std::size_t i = 0; i < out.size(); ++i) most = std::max(most, std::abs(out[i] - expected[i]));
    EXPECT_LE(most, 1) << key;
    EXPECT_EQ(out == pixels, key == "equalise") << key;  // there are too few pixels to equalise
  }
}

TEST(Colours, ChangeNothingAtTheirNeutralMagnitude) {
  const std::pair<std::string, double> neutral[] = {{"brightness", 1}, {"contrast", 1},   {"saturation", 1}, {"hue", 0},
                                                    {"sharpness", 1},  {"solarise", 256}, {"posterise", 8},  {"blur", 0}};
  for (const auto& [name, value] : neutral) {
    for (const std::int32_t channels : {1, 2, 3, 4}) {
      const ImageShape shape{7, 9, channels};
      EXPECT_EQ(changed(pattern(shape), shape, kChanges.at(name)(value)), pattern(shape)) << name << ", " << channels;
    }
  }
}

TEST(Colours, KeepAFlatGreyFlat) {
  const ImageShape shape{6, 5, 3};
  for (const auto& [name, make] : kChanges) {
    for (const double value : {0.0, 0.5, 3.0}) {
      const Bytes out = changed(Bytes(shape.bytes(), 77), shape, make(value));
      EXPECT_EQ(out, Bytes(shape.bytes(), out[0])) << name << " " << value;
    }
  }
}

TEST(Colours, TakeImagesOfOnePixel) {
  for (const auto& [name, make] : kChanges) {
    for (const std::int32_t channels : {1, 3, 4}) {
      EXPECT_EQ(changed(Bytes(4, 200), {1, 1, channels}, make(0.5)).size(), 4U) << name;
    }
  }
}

TEST(Colours, StayWithinTheLevelsAtTheirExtremes) {
  const ImageShape shape{2, 2, 3};
  const Bytes pixels = {0, 255, 3, 255, 255, 255, 0, 0, 0, 200, 100, 50};
  EXPECT_EQ(changed(pixels, shape, with(&colour::brightness, 100)), (Bytes{0, 255, 255, 255, 255, 255, 0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(changed(pixels, shape, with(&colour::brightness, 0)), Bytes(12, 0));
  const Bytes grey = changed(pixels, shape, with(&colour::contrast, 0));
  EXPECT_EQ(grey, Bytes(12, grey[0]));
  for (const std::uint8_t level : changed(pixels, shape, with(&colour::contrast, 100))) EXPECT_TRUE(level == 0 || level == 255);
  EXPECT_EQ(changed(pixels, shape, with(&colour::saturation, 0)), changed(pixels, shape, &colour::greyscale));
}

TEST(Hue, TurnsRedIntoGreenIntoBlue) {
  const ImageShape shape{1, 1, 3};
  EXPECT_EQ(changed({200, 0, 0}, shape, with(&colour::hue, 1.0 / 3)), (Bytes{0, 200, 0}));
  EXPECT_EQ(changed({200, 0, 0}, shape, with(&colour::hue, -1.0 / 3)), (Bytes{0, 0, 200}));
  EXPECT_EQ(changed({200, 20, 20}, shape, with(&colour::hue, 0.5)), (Bytes{20, 200, 200}));
  EXPECT_EQ(changed({90, 90, 90}, shape, with(&colour::hue, 0.2)), (Bytes{90, 90, 90}));
}

TEST(Invert, IsItsOwnInverse) {
  const ImageShape shape{4, 4, 3};
  const Bytes once = changed(pattern(shape), shape, &tone::invert);
  EXPECT_EQ(once[0], 255 - pattern(shape)[0]);
  EXPECT_EQ(changed(once, shape, &tone::invert), pattern(shape));
}

TEST(Posterise, KeepsTheUpperBits) {
  EXPECT_EQ(changed({255, 130, 127, 63}, {2, 2, 1}, posterised(1)), (Bytes{128, 128, 0, 0}));
  EXPECT_EQ(changed({255, 130, 127, 63}, {2, 2, 1}, posterised(0)), Bytes(4, 0));
}

TEST(Blur, KeepsWhatThereIsAndSpreadsIt) {
  const ImageShape shape{31, 31, 1};
  Bytes dot(shape.bytes(), 0);
  dot[15 * 31 + 15] = 255;
  const Bytes out = changed(dot, shape, blurred(1.5));
  const auto at = [&](std::size_t y, std::size_t x) { return int{out[y * 31 + x]}; };
  EXPECT_EQ(at(15, 15), 18);  // 255 / (2 pi 1.5^2)
  EXPECT_EQ(at(13, 15), at(15, 17));
  EXPECT_EQ(at(13, 15), at(17, 15));
  EXPECT_NEAR(std::accumulate(out.begin(), out.end(), 0), 255, 12);
  EXPECT_EQ(changed(Bytes(shape.bytes(), 255), shape, blurred(64)), Bytes(shape.bytes(), 255));
}

TEST(Noise, HasItsDeviationAndNoBias) {
  const ImageShape shape{128, 128, 3};
  const Bytes out = changed(Bytes(shape.bytes(), 128), shape, [](const Image& image) { filters::noise(image, 10, 7); });
  double sum = 0, squares = 0;
  for (const std::uint8_t level : out) {
    sum += level - 128;
    squares += (level - 128.0) * (level - 128.0);
  }
  const double count = static_cast<double>(out.size());
  EXPECT_NEAR(sum / count, 0, 0.2);
  EXPECT_NEAR(std::sqrt(squares / count), 10, 0.2);
  const auto again = [&](std::uint64_t seed) {
    return changed(Bytes(shape.bytes(), 128), shape, [seed](const Image& image) { filters::noise(image, 10, seed); });
  };
  EXPECT_EQ(again(7), out);
  EXPECT_NE(again(8), out);
}

}  // namespace
}  // namespace millrace
