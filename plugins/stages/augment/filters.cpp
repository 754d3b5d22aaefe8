#include "filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "millrace/sample.h"
#include "wide.h"

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

// A weighted sum of 16-bit levels stays below 2^32 because the weights sum to 2^16.
template <class Level>
inline void start(std::uint32_t* sums, const Level* levels, std::uint32_t weight, std::uint32_t half, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = half + weight * levels[i];
}
template <class Level>
inline void pair(std::uint32_t* sums, const Level* one, const Level* other, std::uint32_t weight, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += weight * (std::uint32_t{one[i]} + other[i]);
}

// The same for bytes and for 16 bits; templates cannot be compiled for several processors.
MILLRACE_WIDE void start_sums(std::uint32_t* sums, const std::uint8_t* levels, std::uint32_t weight, std::uint32_t half,
                              std::size_t count) {
  start(sums, levels, weight, half, count);
}
MILLRACE_WIDE void start_sums(std::uint32_t* sums, const std::uint16_t* levels, std::uint32_t weight, std::uint32_t half,
                              std::size_t count) {
  start(sums, levels, weight, half, count);
}
MILLRACE_WIDE void add_pair(std::uint32_t* sums, const std::uint8_t* one, const std::uint8_t* other, std::uint32_t weight,
                            std::size_t count) {
  pair(sums, one, other, weight, count);
}
MILLRACE_WIDE void add_pair(std::uint32_t* sums, const std::uint16_t* one, const std::uint16_t* other, std::uint32_t weight,
                            std::size_t count) {
  pair(sums, one, other, weight, count);
}

MILLRACE_WIDE void add_scaled(std::uint8_t* levels, const float* deviates, float scale, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float level = static_cast<float>(levels[i]) + scale * deviates[i] + 0.5F;
    levels[i] = static_cast<std::uint8_t>(std::max(std::min(level, 255.0F), 0.0F));
  }
}

}  // namespace

MILLRACE_WIDE void sharpness(const ImageView& image, double factor, const Image& out) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const auto height = static_cast<std::size_t>(image.shape.height);
  const std::size_t stride = static_cast<std::size_t>(image.shape.width) * channels;
  std::memcpy(out.data, image.data, image.shape.bytes());
  if (height < 3 || image.shape.width < 3) return;
  const auto own = static_cast<std::int32_t>(std::lround(factor * (1 << 16))), smooth = (1 << 16) - own;
  for (std::size_t y = 1; y + 1 < height; ++y) {
    const std::uint8_t* const above = image.data + (y - 1) * stride;
    const std::uint8_t* const here = above + stride;
    const std::uint8_t* const below = here + stride;
    std::uint8_t* const to = out.data + y * stride;
    for (std::size_t i = channels; i < stride - channels; ++i) {
      const std::size_t left = i - channels, right = i + channels;
      const std::int32_t sum =
          above[left] + above[i] + above[right] + here[left] + 5 * here[i] + here[right] + below[left] + below[i] + below[right];
      const std::int32_t mean = (2 * sum + 13) * 20165 >> 19;  // divided by 26; exact, since 20165 * 26 is just above 2^19
      to[i] = static_cast<std::uint8_t>(std::clamp((own * here[i] + smooth * mean + (1 << 15)) >> 16, 0, 255));
    }
  }
}

void blur(const ImageView& image, double sigma, const Image& out) {
  thread_local std::vector<std::uint8_t> wide;  // a row, mirrored beyond its ends
  thread_local std::vector<std::uint32_t> sums;
  thread_local std::vector<std::uint16_t> across;  // all rows after the horizontal blur, in 1/256 of a level
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
    for (std::ptrdiff_t x = -radius; x < 0; ++x) {
      std::copy_n(row + mirrored(x, width) * channels, channels, wide.data() + static_cast<std::size_t>(x + radius) * channels);
      const std::ptrdiff_t end = width - 1 - x;
      std::copy_n(row + mirrored(end, width) * channels, channels,
                  wide.data() + static_cast<std::size_t>(end + radius) * channels);
    }
    std::uint8_t* const middle = wide.data() + static_cast<std::size_t>(radius) * channels;
    std::memcpy(middle, row, stride);
    start_sums(sums.data(), middle, weights[static_cast<std::size_t>(radius)], 1U << 7, stride);
    for (std::ptrdiff_t tap = 1; tap <= radius; ++tap) {
      const std::ptrdiff_t step = tap * static_cast<std::ptrdiff_t>(channels);
      add_pair(sums.data(), middle - step, middle + step, weights[static_cast<std::size_t>(radius + tap)], stride);
    }
    for (std::size_t i = 0; i < stride; ++i) across[y * stride + i] = static_cast<std::uint16_t>(sums[i] >> 8);
  }
  for (std::ptrdiff_t y = 0; y < height; ++y) {
    const auto row = [&](std::ptrdiff_t at) { return across.data() + mirrored(at, height) * stride; };
    start_sums(sums.data(), row(y), weights[static_cast<std::size_t>(radius)], 1U << 23, stride);
    for (std::ptrdiff_t tap = 1; tap <= radius; ++tap) {
      add_pair(sums.data(), row(y - tap), row(y + tap), weights[static_cast<std::size_t>(radius + tap)], stride);
    }
    std::uint8_t* const to = out.data + static_cast<std::size_t>(y) * stride;
    for (std::size_t i = 0; i < stride; ++i) to[i] = static_cast<std::uint8_t>(sums[i] >> 24);
  }
}

void noise(const Image& image, double deviation, std::uint64_t seed) {
  static const std::array<float, 4096> kQuantiles = make_quantiles();
  constexpr std::size_t kPerWord = 5, kBlock = 64 * kPerWord;  // 12 bits per level
  float deviates[kBlock];
  const std::size_t size = image.shape.bytes();
  for (std::size_t begin = 0; begin < size; begin += kBlock) {
    for (std::size_t i = 0; i < kBlock; i += kPerWord) {
      std::uint64_t word = mix64(seed + begin + i);
      for (std::size_t k = 0; k < kPerWord; ++k, word >>= 12) deviates[i + k] = kQuantiles[word & 4095];
    }
    add_scaled(image.data + begin, deviates, static_cast<float>(deviation), std::min(kBlock, size - begin));
  }
}

}  // namespace millrace::filters
