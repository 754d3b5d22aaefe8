// Samples whose pixels encode their position: checks that a target, and the map to the source image, follow an image through a
// stage.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "millrace/sample.h"

namespace millrace::testkit {

// Channel 0 counts rows and channel 1 columns, in eighths of a pixel of the image; filled pixels of 0 are darker.
inline constexpr int kLevelsPerPixel = 8, kFirstLevel = 24;

// Level at the middle of a row or column, with `scale` of them per pixel of the image. Whole for 1, 2 and 4.
inline std::uint8_t level_of(int at, int scale) {
  return static_cast<std::uint8_t>(kFirstLevel + kLevelsPerPixel * (2 * at + 1 - scale) / (2 * scale));
}

inline void write_positions(const Image& image, int scale) {
  std::uint8_t* pixel = image.data;
  for (int y = 0; y < image.shape.height; ++y) {
    for (int x = 0; x < image.shape.width; ++x, pixel += image.shape.channels) {
      for (int c = 0; c < image.shape.channels; ++c) pixel[c] = c == 0 ? level_of(y, scale) : level_of(x, scale);
    }
  }
}

// REQUIRES: no extent of `shape` above 28; `target` lives as long as the sample is used.
inline void show_positions(Sample& sample, ImageShape shape, const TargetSpec& target, const SampleKey& key = {}) {
  sample.reset(key, {}, target);
  const Image image = sample.new_image(shape), beside = sample.new_target(target.shape(shape));
  write_positions(image, 1);
  write_positions(beside, target.scale);
  sample.set_image(image, SourceMap{shape.height, shape.width, {}});
  sample.set_target(beside);
}

// Expects the part of the target under each image pixel to have the pixel's level on average, within `tolerance` levels. Skips
// partly filled pixels, unless the tolerance is 0: then all that they cover must be filled too. Returns the number of values
// compared.
inline int expect_follows(const Sample& sample, double tolerance = 0) {
  const ImageShape shape = sample.image().shape, beside = sample.target().shape;
  const int scale = sample.target_spec().scale;
  EXPECT_EQ(beside, sample.target_spec().shape(shape));
  if (beside != sample.target_spec().shape(shape)) return 0;
  int compared = 0;
  for (int i = 0; i < shape.height * shape.width * beside.channels; ++i) {
    const int c = i % beside.channels, x = i / beside.channels % shape.width, y = i / beside.channels / shape.width;
    const int level = sample.image().data[(y * shape.width + x) * shape.channels + c];
    int sum = 0;
    bool filled = level == 0;
    for (int part = 0; part < scale * scale; ++part) {
      const int row = scale * y + part / scale, column = scale * x + part % scale;
      const int of_part = sample.target().data[(row * beside.width + column) * beside.channels + c];
      EXPECT_TRUE(tolerance > 0 || (of_part == 0) == (level == 0)) << y << ' ' << x << ": " << level << ' ' << of_part;
      filled = filled || of_part == 0;
      sum += of_part;
    }
    if (filled) continue;
    EXPECT_NEAR(static_cast<double>(sum) / (scale * scale), level, tolerance) << y << ' ' << x << ' ' << c;
    ++compared;
  }
  return compared;
}

// Expects source_map() to lead from each pixel of the image to the position that its levels encode, within `tolerance` pixels.
// Skips partly filled pixels, and those outside the source image. Returns the number compared.
inline int expect_source_map(const Sample& sample, double tolerance) {
  const SourceMap& source = sample.source_map();
  const ImageShape shape = sample.image().shape;
  EXPECT_TRUE(source.is_known());
  const auto is_between = [](double at, int extent) { return at > -1e-6 && at < extent - 1 + 1e-6; };
  int compared = 0;
  for (int i = 0; i < shape.height * shape.width; ++i) {
    const int column = i % shape.width, row = i / shape.width;
    const std::uint8_t* const pixel = sample.image().data + i * shape.channels;
    const double x = source.map.xx * column + source.map.xy * row + source.map.x0;
    const double y = source.map.yx * column + source.map.yy * row + source.map.y0;
    if (pixel[0] == 0 || pixel[1] == 0 || !is_between(x, source.width) || !is_between(y, source.height)) continue;
    EXPECT_NEAR(static_cast<double>(pixel[0] - kFirstLevel) / kLevelsPerPixel, y, tolerance) << row << ' ' << column;
    EXPECT_NEAR(static_cast<double>(pixel[1] - kFirstLevel) / kLevelsPerPixel, x, tolerance) << row << ' ' << column;
    ++compared;
  }
  return compared;
}

// A target image of `scale` times the size.
inline TargetSpec scaled_target(int scale, TargetSpec::Kind kind = TargetSpec::Kind::image) {
  TargetSpec target;
  target.kind = kind;
  target.scale = scale;
  for (std::size_t value = 0; value < target.classes.size(); ++value) target.classes[value] = static_cast<std::uint8_t>(value);
  return target;
}

}  // namespace millrace::testkit
