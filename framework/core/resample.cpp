#include "millrace/resample.h"

#include <algorithm>
#include <cmath>

namespace millrace {

namespace {

constexpr int kBits = 32 - 8 - 2;  // of a weight's fraction: sums of 8-bit pixels stay within 32 bits

std::uint8_t round_to_pixel(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

template <int kChannels>
void narrow_row(const std::uint8_t* row, int width, const int* first, const int* count, const std::int32_t* weights, int taps,
                std::uint8_t* out) {
  for (int x = 0; x < width; ++x, weights += taps, out += kChannels) {
    const std::uint8_t* pixel = row + first[x] * kChannels;
    std::int32_t sum[kChannels];
    std::fill_n(sum, kChannels, 1 << (kBits - 1));
    for (int tap = 0; tap < count[x]; ++tap, pixel += kChannels) {
      for (int c = 0; c < kChannels; ++c) sum[c] += pixel[c] * weights[tap];
    }
    for (int c = 0; c < kChannels; ++c) out[c] = round_to_pixel(sum[c]);
  }
}

using NarrowRow = decltype(&narrow_row<1>);
constexpr NarrowRow kNarrowRow[] = {&narrow_row<1>, &narrow_row<2>, &narrow_row<3>, &narrow_row<4>};

}  // namespace

void Resampler::Axis::prepare(int from_extent, int to_extent) {
  if (from == from_extent && to == to_extent) return;
  from = from_extent;
  to = to_extent;
  const double scale = static_cast<double>(from) / to;
  const double support = std::max(scale, 1.0);  // half the width of the triangle
  taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  first.assign(static_cast<std::size_t>(to), 0);
  count.assign(static_cast<std::size_t>(to), 0);
  weights.assign(static_cast<std::size_t>(to) * static_cast<std::size_t>(taps), 0);
  std::vector<double> real(static_cast<std::size_t>(taps));
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale;
    const int begin = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int end = std::min(static_cast<int>(centre + support + 0.5), from);
    double total = 0;
    for (int x = begin; x < end; ++x) {
      const double distance = std::abs((x - centre + 0.5) * (1.0 / support));
      total += real[static_cast<std::size_t>(x - begin)] = std::max(0.0, 1.0 - distance);
    }
    std::int32_t* const row = weights.data() + static_cast<std::ptrdiff_t>(i) * taps;
    for (int x = 0; x < end - begin; ++x) {
      const double weight = total == 0 ? 0 : real[static_cast<std::size_t>(x)] / total;
      row[x] = static_cast<std::int32_t>(0.5 + weight * (1 << kBits));
    }
    first[static_cast<std::size_t>(i)] = begin;
    count[static_cast<std::size_t>(i)] = end - begin;
  }
}

void Resampler::resize(const Image& image, ImageShape to, std::uint8_t* out) {
  const auto channels = static_cast<std::size_t>(to.channels);
  const std::size_t stride = static_cast<std::size_t>(image.shape.width) * channels;
  const std::size_t out_stride = static_cast<std::size_t>(to.width) * channels;
  columns_.prepare(image.shape.width, to.width);
  rows_.prepare(image.shape.height, to.height);

  const std::uint8_t* narrow = image.data;
  if (image.shape.width != to.width) {
    narrow_.resize(static_cast<std::size_t>(image.shape.height) * out_stride);
    for (std::size_t y = 0; y < static_cast<std::size_t>(image.shape.height); ++y) {
      kNarrowRow[channels - 1](image.data + y * stride, to.width, columns_.first.data(), columns_.count.data(),
                               columns_.weights.data(), columns_.taps, narrow_.data() + y * out_stride);
    }
    narrow = narrow_.data();
  }

  sums_.resize(out_stride);
  for (std::size_t y = 0; y < static_cast<std::size_t>(to.height); ++y, out += out_stride) {
    std::fill(sums_.begin(), sums_.end(), 1 << (kBits - 1));
    for (int tap = 0; tap < rows_.count[y]; ++tap) {
      const std::int32_t weight = rows_.weights[y * static_cast<std::size_t>(rows_.taps) + static_cast<std::size_t>(tap)];
      const std::uint8_t* row = narrow + static_cast<std::size_t>(rows_.first[y] + tap) * out_stride;
      for (std::size_t i = 0; i < out_stride; ++i) sums_[i] += row[i] * weight;
    }
    for (std::size_t i = 0; i < out_stride; ++i) out[i] = round_to_pixel(sums_[i]);
  }
}

}  // namespace millrace
