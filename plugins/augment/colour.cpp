#include "colour.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace millrace::colour {

namespace {

constexpr int kBits = 16;  // of a factor's fraction
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

void scale_and_add(const Image& image, double factor, double offset) {
  const std::int32_t scale = fixed(factor), add = fixed(offset) + kHalf;
  std::uint8_t* const data = image.data;
  const std::size_t size = image.shape.bytes();
  for (std::size_t i = 0; i < size; ++i) data[i] = to_pixel(scale * data[i] + add);
}

double mean_luminance(const Image& image) {
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

void saturation(const Image& image, double factor) {
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
void hue(const Image& image, double turns) {
  if (image.shape.channels != 3) return;
  const auto shift = static_cast<float>(6 * turns);
  const std::size_t pixels = pixels_of(image);
  for (std::size_t i = 0; i < pixels; ++i) {
    std::uint8_t* const pixel = image.data + 3 * i;
    const auto r = static_cast<float>(pixel[0]), g = static_cast<float>(pixel[1]), b = static_cast<float>(pixel[2]);
    const float largest = std::max({r, g, b}), range = largest - std::min({r, g, b});
    const float unit = range > 0 ? 1 / range : 0;
    const float h = shift + (largest == r ? (g - b) * unit : largest == g ? 2 + (b - r) * unit : 4 + (r - g) * unit);
    for (int c = 0; c < 3; ++c) {
      float k = h + static_cast<float>(5 - 2 * c);
      k -= 6 * std::floor(k * (1.0F / 6));
      const float part = std::clamp(std::min(k, 4 - k), 0.0F, 1.0F);
      pixel[c] = static_cast<std::uint8_t>(largest - range * part + 0.5F);
    }
  }
}

void greyscale(const Image& image) {
  if (image.shape.channels != 3) return;
  const std::size_t pixels = pixels_of(image);
  for (std::size_t i = 0; i < pixels; ++i) {
    std::uint8_t* const pixel = image.data + 3 * i;
    std::fill_n(pixel, 3, static_cast<std::uint8_t>(luminance(pixel)));
  }
}

}  // namespace millrace::colour
