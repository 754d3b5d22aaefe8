#include "tone.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "wide.h"

namespace millrace::tone {

namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::uint32_t, 256>;

// Gives each channel a table made from its histogram.
template <class MakeTable>
void remap(const Image& image, MakeTable make_table) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::size_t size = image.shape.bytes();
  for (std::size_t c = 0; c < channels; ++c) {
    Histogram histogram{};
    for (std::size_t i = c; i < size; i += channels) ++histogram[image.data[i]];
    const Table table = make_table(histogram);
    for (std::size_t i = c; i < size; i += channels) image.data[i] = table[image.data[i]];
  }
}

Table identity() {
  Table table;
  for (std::size_t level = 0; level < table.size(); ++level) table[level] = static_cast<std::uint8_t>(level);
  return table;
}

Table equalising(const Histogram& histogram) {
  Table table = identity();
  std::uint32_t total = 0, last = 0;
  for (const std::uint32_t count : histogram) {
    total += count;
    if (count > 0) last = count;
  }
  const std::uint32_t step = (total - last) / 255;
  if (step == 0) return table;
  std::uint32_t below = step / 2;
  for (std::size_t level = 0; level < table.size(); ++level) {
    table[level] = static_cast<std::uint8_t>(std::min(below / step, 255U));
    below += histogram[level];
  }
  return table;
}

Table stretching(const Histogram& histogram) {
  Table table = identity();
  const auto used = [](std::uint32_t count) { return count > 0; };
  const auto low = std::find_if(histogram.begin(), histogram.end(), used) - histogram.begin();
  const auto high = histogram.rend() - std::find_if(histogram.rbegin(), histogram.rend(), used) - 1;
  if (high <= low) return table;
  const double scale = 255.0 / static_cast<double>(high - low);
  for (std::ptrdiff_t level = 0; level < 256; ++level) {
    const double stretched = std::clamp(static_cast<double>(level - low) * scale, 0.0, 255.0);
    table[static_cast<std::size_t>(level)] = static_cast<std::uint8_t>(std::lround(stretched));
  }
  return table;
}

}  // namespace

void invert(const Image& image) { solarise(image, 0); }

MILLRACE_WIDE void solarise(const Image& image, double threshold) {
  const auto first = static_cast<int>(std::ceil(threshold));
  const std::size_t size = image.shape.bytes();
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint8_t level = image.data[i];
    image.data[i] = static_cast<std::uint8_t>(level < first ? level : 255 - level);
  }
}

MILLRACE_WIDE void posterise(const Image& image, int bits) {
  const auto mask = static_cast<std::uint8_t>(0xff00 >> bits);
  const std::size_t size = image.shape.bytes();
  for (std::size_t i = 0; i < size; ++i) image.data[i] &= mask;
}

void equalise(const Image& image) { remap(image, equalising); }

void autocontrast(const Image& image) { remap(image, stretching); }

}  // namespace millrace::tone
