#include "millrace/util/affine.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#include "millrace/error.h"

namespace millrace {

namespace {

constexpr int kFraction = 32;  // fractional bits of a coordinate
constexpr std::int64_t kOne = std::int64_t{1} << kFraction;
constexpr int kBlendBits = 11;  // bits of a bilinear weight

double tangent(double degrees) { return std::tan(degrees * std::numbers::pi / 180); }

// Coordinates and steps beyond these are outside in any case; clamped so that sums stay within 64 bits.
constexpr double kFarthest = 1 << 29, kLongestStep = 1 << 13;

std::int64_t fixed(double value, double most) {
  return static_cast<std::int64_t>(std::llround(std::clamp(value, -most, most) * static_cast<double>(kOne)));
}

// The pixel used for coordinate `at` outside the image: mirrored, or the edge's.
int inside(std::int64_t at, int extent, Border border, int unit) {
  if (at >= 0 && at < extent) return static_cast<int>(at);
  if (border != Border::reflect || extent == 1) return at < 0 ? 0 : extent - 1;
  const std::int64_t period = extent == unit ? unit : 2 * (std::int64_t{extent} - unit);
  if (at < 0 && at >= extent - period) return static_cast<int>(unit - 1 - at);  // by far the most frequent case
  if (at >= extent && at < period) return static_cast<int>(period + unit - 1 - at);
  const std::int64_t phase = ((at % period) + period) % period;
  return static_cast<int>(phase < extent ? phase : period + unit - 1 - phase);
}

struct SourceImage {
  const ImageView& image;
  Border border;
  int unit;

  const std::uint8_t* pixel(std::int64_t x, std::int64_t y) const {
    const ImageShape& shape = image.shape;
    const auto row = static_cast<std::size_t>(inside(y, shape.height, border, unit));
    const auto column = static_cast<std::size_t>(inside(x, shape.width, border, unit));
    return image.data + (row * static_cast<std::size_t>(shape.width) + column) * static_cast<std::size_t>(shape.channels);
  }
};

struct Nearest {
  static constexpr int kFirst = 0, kTaps = 1;
  template <int kChannels, class Tap>
  static void blend(std::int64_t, std::int64_t, const Tap& tap, std::uint8_t* out) {
    std::copy_n(tap(0, 0), kChannels, out);
  }
};

struct Bilinear {
  static constexpr int kFirst = 0, kTaps = 2;  // reads pixels 0 and 1 to the right and below the coordinate's floor
  template <int kChannels, class Tap>
  static void blend(std::int64_t x, std::int64_t y, const Tap& tap, std::uint8_t* out) {
    constexpr std::uint32_t kUnit = 1U << kBlendBits;
    const auto right = static_cast<std::uint32_t>(x >> (kFraction - kBlendBits)) & (kUnit - 1);
    const auto below = static_cast<std::uint32_t>(y >> (kFraction - kBlendBits)) & (kUnit - 1);
    const std::uint32_t weights[] = {(kUnit - right) * (kUnit - below), right * (kUnit - below), (kUnit - right) * below,
                                     right * below};
    const std::uint8_t* const pixels[] = {tap(0, 0), tap(1, 0), tap(0, 1), tap(1, 1)};
    for (int c = 0; c < kChannels; ++c) {
      std::uint32_t sum = 1U << (2 * kBlendBits - 1);
      for (int i = 0; i < 4; ++i) sum += pixels[i][c] * weights[i];
      out[c] = static_cast<std::uint8_t>(sum >> (2 * kBlendBits));
    }
  }
};

// Keys' weights at every 1/2048 between two pixels, in 1/2048; each four sum to exactly one.
struct CubicWeights {
  static constexpr int kUnit = 1 << kBlendBits;
  std::array<std::array<std::int32_t, 4>, kUnit> at;

  CubicWeights() {
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double t = static_cast<double>(i) / kUnit;
      const double real[] = {((-0.5 * t + 1) * t - 0.5) * t, (1.5 * t - 2.5) * t * t + 1, ((-1.5 * t + 2) * t + 0.5) * t};
      for (std::size_t tap = 0; tap < 3; ++tap) at[i][tap] = static_cast<std::int32_t>(std::lround(real[tap] * kUnit));
      at[i][3] = kUnit - at[i][0] - at[i][1] - at[i][2];
    }
  }
};

struct Bicubic {
  static constexpr int kFirst = -1, kTaps = 4;
  static const std::array<std::int32_t, 4>& weights(std::int64_t at) {
    static const CubicWeights kWeights;
    return kWeights.at[static_cast<std::size_t>(at >> (kFraction - kBlendBits)) & (CubicWeights::kUnit - 1)];
  }
  template <int kChannels, class Tap>
  static void blend(std::int64_t x, std::int64_t y, const Tap& tap, std::uint8_t* out) {
    const std::array<std::int32_t, 4>&across = weights(x), &down = weights(y);
    std::int32_t sum[kChannels];
    std::fill_n(sum, kChannels, 1 << (2 * kBlendBits - 1));
    for (int j = 0; j < 4; ++j) {
      std::int32_t row[kChannels] = {};
      for (int i = 0; i < 4; ++i) {
        const std::uint8_t* const pixel = tap(i - 1, j - 1);
        for (int c = 0; c < kChannels; ++c) row[c] += across[static_cast<std::size_t>(i)] * pixel[c];
      }
      for (int c = 0; c < kChannels; ++c) sum[c] += down[static_cast<std::size_t>(j)] * row[c];
    }
    for (int c = 0; c < kChannels; ++c) out[c] = static_cast<std::uint8_t>(std::clamp(sum[c] >> (2 * kBlendBits), 0, 255));
  }
};

template <class Kernel, int kChannels>
void warp(const AffineMap& map, const SourceImage& source, const std::uint8_t* fill, const Image& out) {
  const ImageShape& shape = source.image.shape;
  const std::size_t stride = static_cast<std::size_t>(shape.width) * kChannels;
  constexpr std::int64_t kHalf = kOne / 2;
  // Nearest selects the pixel whose area contains the coordinate, the others the pixel to its left and above.
  constexpr std::int64_t kShift = Kernel::kTaps == 1 ? kHalf : 0;
  const std::int64_t last_x = shape.width - Kernel::kTaps - Kernel::kFirst,
                     last_y = shape.height - Kernel::kTaps - Kernel::kFirst;
  const std::int64_t step_x = fixed(map.xx, kLongestStep), step_y = fixed(map.yx, kLongestStep);
  std::uint8_t* pixel = out.data;
  for (int row = 0; row < out.shape.height; ++row) {
    std::int64_t x = fixed(map.xy * row + map.x0, kFarthest), y = fixed(map.yy * row + map.y0, kFarthest);
    for (int column = 0; column < out.shape.width; ++column, x += step_x, y += step_y, pixel += kChannels) {
      const std::int64_t left = (x + kShift) >> kFraction, top = (y + kShift) >> kFraction;
      if (left >= -Kernel::kFirst && left <= last_x && top >= -Kernel::kFirst && top <= last_y) {
        const std::uint8_t* at =
            source.image.data + static_cast<std::size_t>(top) * stride + static_cast<std::size_t>(left) * kChannels;
        const auto tap = [at, stride](std::ptrdiff_t i, std::ptrdiff_t j) {
          return at + j * static_cast<std::ptrdiff_t>(stride) + i * kChannels;
        };
        Kernel::template blend<kChannels>(x, y, tap, pixel);
        continue;
      }
      const std::int64_t nearest_x = (x + kHalf) >> kFraction, nearest_y = (y + kHalf) >> kFraction;
      const bool outside = nearest_x < 0 || nearest_x >= shape.width || nearest_y < 0 || nearest_y >= shape.height;
      if (outside && source.border == Border::constant) {
        std::copy_n(fill, kChannels, pixel);
        continue;
      }
      const auto tap = [&source, left, top](int i, int j) { return source.pixel(left + i, top + j); };
      Kernel::template blend<kChannels>(x, y, tap, pixel);
    }
  }
}

template <class Kernel>
void warp(const AffineMap& map, const SourceImage& source, const std::uint8_t* fill, const Image& out) {
  using Warp = decltype(&warp<Kernel, 1>);
  constexpr Warp kByChannels[] = {&warp<Kernel, 1>, &warp<Kernel, 2>, &warp<Kernel, 3>, &warp<Kernel, 4>};
  kByChannels[out.shape.channels - 1](map, source, fill, out);
}

}  // namespace

AffineMap AffineMap::rotation(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  return {std::cos(angle), std::sin(angle), 0, -std::sin(angle), std::cos(angle), 0};  // y points down
}

AffineMap AffineMap::shear(double x_degrees, double y_degrees) { return {1, tangent(x_degrees), 0, tangent(y_degrees), 1, 0}; }

AffineMap AffineMap::then(const AffineMap& next) const {
  return {next.xx * xx + next.xy * yx, next.xx * xy + next.xy * yy, next.xx * x0 + next.xy * y0 + next.x0,
          next.yx * xx + next.yy * yx, next.yx * xy + next.yy * yy, next.yx * x0 + next.yy * y0 + next.y0};
}

AffineMap AffineMap::about(double x, double y) const { return translation(-x, -y).then(*this).then(translation(x, y)); }

AffineMap AffineMap::inverse() const {
  const double d = determinant();
  assert(d != 0);
  const AffineMap linear{yy / d, -xy / d, 0, -yx / d, xx / d, 0};
  return translation(-x0, -y0).then(linear);
}

Border border_named(std::string_view border) {
  assert(border == "constant" || border == "reflect" || border == "edge");
  return border == "reflect" ? Border::reflect : border == "edge" ? Border::edge : Border::constant;
}

std::array<std::uint8_t, 4> fill_colour(const std::vector<std::int64_t>& fill, int channels) {
  std::array<std::uint8_t, 4> colour{};
  const bool one_each = channels == 0 || fill.size() == static_cast<std::size_t>(channels);
  if (fill.empty() || fill.size() > colour.size() || (fill.size() > 1 && !one_each)) {
    fail(ErrorKind::usage, "fill: expected one value, or one for each channel, found {}", fill.size());
  }
  for (std::size_t channel = 0; channel < colour.size(); ++channel) {
    const std::int64_t value = fill.size() == 1 ? fill[0] : channel < fill.size() ? fill[channel] : 0;
    if (value < 0 || value > 255) fail(ErrorKind::usage, "fill: expected 0 ... 255, found {}", value);
    colour[channel] = static_cast<std::uint8_t>(value);
  }
  return colour;
}

void warp_affine(const AffineMap& to_source, const ImageView& image, Interpolation interpolation, Border border,
                 const std::uint8_t fill[4], const Image& out, int unit) {
  assert(out.shape.channels == image.shape.channels && out.shape.channels <= 4 && out.data != image.data);
  const SourceImage source{image, border, unit};
  switch (interpolation) {
    case Interpolation::nearest: return warp<Nearest>(to_source, source, fill, out);
    case Interpolation::bilinear: return warp<Bilinear>(to_source, source, fill, out);
    case Interpolation::bicubic: return warp<Bicubic>(to_source, source, fill, out);
  }
}

}  // namespace millrace
