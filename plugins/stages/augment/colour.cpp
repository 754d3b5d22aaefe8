#include "colour.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "wide.h"

namespace millrace::colour {

namespace {

constexpr int kBits = 16;  // fraction bits of a factor
constexpr std::int32_t kHalf = 1 << (kBits - 1);

std::int32_t fixed(double value) { return static_cast<std::int32_t>(std::lround(value * (1 << kBits))); }

std::uint8_t to_pixel(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

// Pillow's weights.
std::int32_t luminance(const std::uint8_t* pixel) {
  return (19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + kHalf) >> kBits;
}

std::size_t pixels_of(const Image& image) {
  return static_cast<std::size_t>(image.shape.height) * static_cast<std::size_t>(image.shape.width);
}

MILLRACE_WIDE void scale_and_add(const Image& image, double factor, double offset) {
  const std::int32_t scale = fixed(factor), add = fixed(offset) + kHalf;
  std::uint8_t* const data = image.data;
  const std::size_t size = image.shape.bytes();
  for (std::size_t i = 0; i < size; ++i) data[i] = to_pixel(scale * data[i] + add);
}

MILLRACE_WIDE double mean_luminance(const Image& image) {
  std::uint64_t sum = 0;
  const std::size_t pixels = pixels_of(image);
  if (image.shape.channels != 3) {
    for (std::size_t i = 0; i < image.shape.bytes(); ++i) sum += image.data[i];
    return static_cast<double>(sum) / static_cast<double>(image.shape.bytes());
  }
  for (std::size_t i = 0; i < pixels; ++i) sum += static_cast<std::uint64_t>(luminance(image.data + 3 * i));
  return static_cast<double>(sum) / static_cast<double>(pixels);
}

}  // namespace

void brightness(const Image& image, double factor) { scale_and_add(image, factor, 0); }

void contrast(const Image& image, double factor) {
  if (factor == 1) return;
  scale_and_add(image, factor, (1 - factor) * std::floor(mean_luminance(image) + 0.5));
}

MILLRACE_WIDE void saturation(const Image& image, double factor) {
  if (image.shape.channels != 3) return;
  const std::int32_t own = fixed(factor), grey = (1 << kBits) - own;
  const std::size_t pixels = pixels_of(image);
  for (std::size_t i = 0; i < pixels; ++i) {
    std::uint8_t* const pixel = image.data + 3 * i;
    const std::int32_t add = grey * luminance(pixel) + kHalf;
    for (int c = 0; c < 3; ++c) pixel[c] = to_pixel(own * pixel[c] + add);
  }
}

// HSV without a division by cases: with hue h in sixths of a turn, channel c is
//   largest - (largest - smallest) * clamp(min(k, 4 - k), 0, 1),  k = (n_c + h) mod 6,  n = 5, 3, 1 for R, G, B
// (Smith, "Color gamut transform pairs", 1978, in the form commonly given for HSV to RGB).
MILLRACE_WIDE void hue(const Image& image, double turns) {
  if (image.shape.channels != 3) return;
  constexpr std::size_t kBlock = 64;  // pixels, channel by channel, so that loops become vectors
  float planes[3][kBlock] = {}, hues[kBlock], largest[kBlock], ranges[kBlock];
  const auto shift = static_cast<float>(6 * turns + 6);
  const std::size_t pixels = pixels_of(image);
  for (std::size_t begin = 0; begin < pixels; begin += kBlock) {
    const std::size_t count = std::min(kBlock, pixels - begin);
    std::uint8_t* const block = image.data + 3 * begin;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t c = 0; c < 3; ++c) planes[c][i] = static_cast<float>(block[3 * i + c]);
    }
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float r = planes[0][i], g = planes[1][i], b = planes[2][i];
      const float most = std::max(std::max(r, g), b), range = most - std::min(std::min(r, g), b);
      const float unit = 1 / std::max(range, 1.0F);
      const float of_red = (g - b) * unit, of_green = 2 + (b - r) * unit, of_blue = 4 + (r - g) * unit;
      const float of_others = most == g ? of_green : of_blue;
      hues[i] = shift + (most == r ? of_red : of_others);
      largest[i] = most;
      ranges[i] = range;
    }
    for (int c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        float k = hues[i] + static_cast<float>(5 - 2 * c);
        k -= 6 * static_cast<float>(static_cast<int>(k * (1.0F / 6)));
        planes[c][i] = largest[i] - ranges[i] * std::max(std::min(std::min(k, 4 - k), 1.0F), 0.0F) + 0.5F;
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t c = 0; c < 3; ++c) block[3 * i + c] = static_cast<std::uint8_t>(planes[c][i]);
    }
  }
}

MILLRACE_WIDE void greyscale(const Image& image) {
  if (image.shape.channels != 3) return;
  const std::size_t pixels = pixels_of(image);
  for (std::size_t i = 0; i < pixels; ++i) {
    std::uint8_t* const pixel = image.data + 3 * i;
    std::fill_n(pixel, 3, static_cast<std::uint8_t>(luminance(pixel)));
  }
}

}  // namespace millrace::colour
