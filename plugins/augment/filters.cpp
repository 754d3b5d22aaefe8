#include "filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "millrace/random.h"

namespace millrace::filters {

namespace {

constexpr int kWeightBits = 16;

// Weights of a Gaussian from -radius to radius in 1/65536; they add up to exactly one, so that flat images stay flat.
const std::vector<std::uint32_t>& gaussian(double sigma) {
  thread_local std::vector<std::uint32_t> weights;
  thread_local std::vector<double> real;
  const int radius = std::max(1, static_cast<int>(std::ceil(3 * sigma)));
  real.resize(static_cast<std::size_t>(2 * radius + 1));
  weights.resize(real.size());
  double total = 0;
  for (int i = -radius; i <= radius; ++i) {
    const double distance = sigma > 0 ? i / sigma : i == 0 ? 0 : 1e9;
    total += real[static_cast<std::size_t>(i + radius)] = std::exp(-0.5 * distance * distance);
  }
  std::uint32_t rest = 1U << kWeightBits;
  for (std::size_t i = 0; i < real.size(); ++i) {
    weights[i] = static_cast<std::uint32_t>(std::lround(real[i] / total * (1 << kWeightBits)));
    rest -= weights[i];
  }
  weights[static_cast<std::size_t>(radius)] += rest;
  return weights;
}

std::size_t mirrored(std::ptrdiff_t at, std::ptrdiff_t extent) {
  if (extent == 1) return 0;
  const std::ptrdiff_t period = 2 * (extent - 1), phase = ((at % period) + period) % period;
  return static_cast<std::size_t>(phase < extent ? phase : period - phase);
}

// The normal distribution's quantiles at (i + 1/2) / 4096, by bisection.
std::array<float, 4096> make_quantiles() {
  std::array<float, 4096> quantiles;
  for (std::size_t i = 0; i < quantiles.size(); ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(quantiles.size());
    double low = -5, high = 5;
    for (int halving = 0; halving < 40; ++halving) {
      const double middle = 0.5 * (low + high);
      (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
    }
    quantiles[i] = static_cast<float>(low);
  }
  return quantiles;
}

}  // namespace

void sharpness(const Image& image, double factor, const Image& out) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const auto height = static_cast<std::size_t>(image.shape.height);
  const std::size_t stride = static_cast<std::size_t>(image.shape.width) * channels;
  std::memcpy(out.data, image.data, image.shape.bytes());
  if (height < 3 || image.shape.width < 3) return;
  const auto own = static_cast<std::int32_t>(std::lround(factor * (1 << 16))), smooth = (1 << 16) - own;
  for (std::size_t y = 1; y + 1 < height; ++y) {
    const std::uint8_t* const row = image.data + y * stride;
    std::uint8_t* const to = out.data + y * stride;
    for (std::size_t i = channels; i < stride - channels; ++i) {
      const std::uint8_t* const above = row + i - stride;
      const std::uint8_t* const here = row + i;
      const std::uint8_t* const below = row + i + stride;
      const std::ptrdiff_t side = static_cast<std::ptrdiff_t>(channels);
      const std::int32_t sum =
          above[-side] + above[0] + above[side] + here[-side] + 5 * here[0] + here[side] + below[-side] + below[0] + below[side];
      const std::int32_t mean = (2 * sum + 13) / 26;
      to[i] = static_cast<std::uint8_t>(std::clamp((own * here[0] + smooth * mean + (1 << 15)) >> 16, 0, 255));
    }
  }
}

void blur(const Image& image, double sigma, const Image& out) {
  thread_local std::vector<std::uint8_t> wide;  // a row, mirrored beyond its ends
  thread_local std::vector<std::uint32_t> sums;
  thread_local std::vector<std::uint16_t> across;  // every row blurred along itself, in 1/256 of a level
  const std::vector<std::uint32_t>& weights = gaussian(sigma);
  const auto radius = static_cast<std::ptrdiff_t>(weights.size() / 2);
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::ptrdiff_t width = image.shape.width, height = image.shape.height;
  const std::size_t stride = static_cast<std::size_t>(width) * channels;
  wide.resize(stride + 2 * static_cast<std::size_t>(radius) * channels);
  sums.resize(stride);
  across.resize(stride * static_cast<std::size_t>(height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    const std::uint8_t* const row = image.data + y * stride;
    for (std::ptrdiff_t x = -radius; x < width + radius; ++x) {
      std::copy_n(row + mirrored(x, width) * channels, channels, wide.data() + static_cast<std::size_t>(x + radius) * channels);
    }
    std::fill(sums.begin(), sums.end(), 1U << 7);
    for (std::size_t tap = 0; tap < weights.size(); ++tap) {
      const std::uint8_t* const from = wide.data() + tap * channels;
      for (std::size_t i = 0; i < stride; ++i) sums[i] += weights[tap] * from[i];
    }
    for (std::size_t i = 0; i < stride; ++i) across[y * stride + i] = static_cast<std::uint16_t>(sums[i] >> 8);
  }
  for (std::ptrdiff_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 1U << 23);
    for (std::ptrdiff_t tap = -radius; tap <= radius; ++tap) {
      const std::uint32_t weight = weights[static_cast<std::size_t>(tap + radius)];
      const std::uint16_t* const from = across.data() + mirrored(y + tap, height) * stride;
      for (std::size_t i = 0; i < stride; ++i) sums[i] += weight * from[i];
    }
    std::uint8_t* const to = out.data + static_cast<std::size_t>(y) * stride;
    for (std::size_t i = 0; i < stride; ++i) to[i] = static_cast<std::uint8_t>(sums[i] >> 24);
  }
}

void noise(const Image& image, double deviation, std::uint64_t seed) {
  static const std::array<float, 4096> kQuantiles = make_quantiles();
  constexpr std::size_t kPerWord = 5;  // of 12 bits each
  const auto scale = static_cast<float>(deviation);
  const std::size_t size = image.shape.bytes();
  for (std::size_t i = 0; i < size; i += kPerWord) {
    std::uint64_t word = mix64(seed + i);
    for (std::size_t k = i; k < std::min(i + kPerWord, size); ++k, word >>= 12) {
      const float level = static_cast<float>(image.data[k]) + scale * kQuantiles[word & 4095];
      image.data[k] = static_cast<std::uint8_t>(std::clamp(level + 0.5F, 0.0F, 255.0F));
    }
  }
}

}  // namespace millrace::filters
