#include "millrace/util/resample.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "data/resample_kernels.h"

namespace millrace {

namespace {

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

std::int32_t to_fixed(double weight) {
  return static_cast<std::int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kWeightBits));
}

}  // namespace

ResampleFilter resample_filter(std::string_view name) {
  assert(name == "nearest" || name == "bilinear" || name == "bicubic");
  return name == "nearest" ? ResampleFilter::nearest : name == "bicubic" ? ResampleFilter::bicubic : ResampleFilter::bilinear;
}

AffineMap resample_map(const Box& box, const ImageShape& to) {
  const double x = (double{box.right} - double{box.left}) / to.width, y = (double{box.bottom} - double{box.top}) / to.height;
  return {x, 0, double{box.left} + 0.5 * x - 0.5, 0, y, double{box.top} + 0.5 * y - 0.5};
}

PixelRows rows_of(const ImageView& image) {
  return {image.data, image.shape, static_cast<std::size_t>(image.shape.width) * static_cast<std::size_t>(image.shape.channels)};
}

void Resampler::Axis::prepare(int new_extent, float new_low, float new_high, ResampleFilter new_filter, int new_to) {
  if (extent == new_extent && low == new_low && high == new_high && filter == new_filter && to == new_to) return;
  extent = new_extent;
  low = new_low;
  high = new_high;
  filter = new_filter;
  to = new_to;
  try {
    fill();
  } catch (...) {  // out of memory: discard the half-made table
    to = 0;
    throw;
  }
}

// The arithmetic follows Pillow (precompute_coeffs in Resample.c), down to the order of operations.
void Resampler::Axis::fill() {
  const double scale = static_cast<double>(high - low) / to;
  const double widening = std::max(scale, 1.0);
  const double support = (filter == ResampleFilter::bicubic ? 2.0 : 1.0) * widening;
  const auto centre_of = [&](int i) { return static_cast<double>(low) + (i + 0.5) * scale; };
  const auto begin_of = [&](double centre) { return std::max(static_cast<int>(centre - support + 0.5), 0); };
  const auto end_of = [&](double centre) { return std::min(static_cast<int>(centre + support + 0.5), extent); };
  taps = 1;
  for (int i = 0; i < to; ++i) taps = std::max(taps, end_of(centre_of(i)) - begin_of(centre_of(i)));
  taps = (taps + 3) / 4 * 4;
  first.resize(static_cast<std::size_t>(to));
  weights.assign(static_cast<std::size_t>(to) * static_cast<std::size_t>(taps), 0);
  constexpr int kSome = 64;  // weights of one output pixel, computed in pieces
  double real[kSome];
  for (int i = 0; i < to; ++i) {
    const double centre = centre_of(i);
    const int from = begin_of(centre), until = end_of(centre);
    const auto weight_at = [&](int x) {
      const double distance = (x - centre + 0.5) * (1.0 / widening);
      return filter == ResampleFilter::bicubic ? cubic(distance) : triangle(distance);
    };
    double total = 0;
    for (int x = from; x < until; ++x) {
      const double weight = weight_at(x);
      total += weight;
      if (x - from < kSome) real[x - from] = weight;
    }
    // The table's row may begin before the weights do, so that all of it lies in the source.
    const int start = std::max(0, std::min(from, extent - taps));
    std::int32_t* const row = weights.data() + static_cast<std::ptrdiff_t>(i) * taps + (from - start);
    for (int x = from; x < until; ++x) {
      const double weight = x - from < kSome ? real[x - from] : weight_at(x);
      row[x - from] = to_fixed(total == 0 ? weight : weight / total);
    }
    first[static_cast<std::size_t>(i)] = start;
  }
  begin = first.front();
  end = std::min(first.back() + taps, extent);
  packed.resize(weights.size());
  const ResampleKernels& kernels = resample_kernels().front();
  for (std::size_t i = 0; i < packed.size(); i += 4) kernels.pack(weights.data() + i, packed.data() + i);
}

void Resampler::resize(const ImageView& image, ImageShape to, std::uint8_t* out) {
  const Box whole{0, 0, static_cast<float>(image.shape.width), static_cast<float>(image.shape.height)};
  resize(rows_of(image), whole, ResampleFilter::bilinear, to, out);
}

void Resampler::resize(const PixelRows& image, const Box& box, ResampleFilter filter, ImageShape to, std::uint8_t* out) {
  assert(to.channels == image.shape.channels && to.channels <= 4 && to.is_static() && image.shape.is_static());
  assert(box.left >= 0 && box.top >= 0 && box.right > box.left && box.bottom > box.top);
  if (filter == ResampleFilter::nearest) return nearest(image, box, to, out);
  columns_.prepare(image.shape.width, box.left, box.right, filter, to.width);
  rows_.prepare(image.shape.height, box.top, box.bottom, filter, to.height);
  resample(image, to, out);
}

void Resampler::resample(const PixelRows& image, ImageShape to, std::uint8_t* out) {
  const ResampleKernels& kernels = resample_kernels().front();
  const std::size_t bytes = static_cast<std::size_t>(to.width) * static_cast<std::size_t>(to.channels);
  const std::uint8_t* narrow = image.data;
  std::size_t stride = image.stride;
  int skipped = 0;  // rows at the top that `narrow` lacks
  if (!columns_.is_copy()) {
    skipped = rows_.is_copy() ? 0 : rows_.begin;
    const int last = rows_.is_copy() ? rows_.extent : rows_.end;
    stride = bytes + kRowPadding;
    narrow_.resize(static_cast<std::size_t>(last - skipped) * stride);
    kernels.narrow({.in = image.data + static_cast<std::size_t>(skipped) * image.stride,
                    .in_stride = image.stride,
                    .rows = last - skipped,
                    .width = image.shape.width,
                    .channels = to.channels,
                    .first = columns_.first.data(),
                    .weights = columns_.weights.data(),
                    .packed = columns_.packed.data(),
                    .taps = columns_.taps,
                    .to = to.width,
                    .out = narrow_.data(),
                    .out_stride = stride});
    narrow = narrow_.data();
  }
  const auto row_taps = static_cast<std::size_t>(rows_.taps);
  for (std::size_t y = 0; y < static_cast<std::size_t>(to.height); ++y, out += bytes) {
    if (rows_.is_copy()) {
      std::memcpy(out, narrow + y * stride, bytes);
      continue;
    }
    const bool whole = rows_.taps <= rows_.extent;  // otherwise the source has fewer rows than the table has weights
    kernels.flatten({.rows = narrow + static_cast<std::size_t>(rows_.first[y] - skipped) * stride,
                     .in_stride = stride,
                     .weights = rows_.weights.data() + y * row_taps,
                     .packed = whole ? rows_.packed.data() + y * row_taps : nullptr,
                     .taps = whole ? rows_.taps : rows_.extent - rows_.first[y],
                     .bytes = bytes,
                     .out = out});
  }
}

// Steps accumulate as in Pillow (ImagingScaleAffine in Geometry.c).
void Resampler::nearest(const PixelRows& image, const Box& box, ImageShape to, std::uint8_t* out) {
  const double step_x = static_cast<double>(box.right - box.left) / to.width;
  const double step_y = static_cast<double>(box.bottom - box.top) / to.height;
  const auto channels = static_cast<std::size_t>(to.channels);
  nearest_.resize(static_cast<std::size_t>(to.width));
  double at = static_cast<double>(box.left) + step_x * 0.5;
  for (int& column : nearest_) {
    column = std::min(static_cast<int>(at), image.shape.width - 1);
    at += step_x;
  }
  at = static_cast<double>(box.top) + step_y * 0.5;
  for (int y = 0; y < to.height; ++y, at += step_y) {
    const int source = std::min(static_cast<int>(at), image.shape.height - 1);
    const std::uint8_t* row = image.data + static_cast<std::size_t>(source) * image.stride;
    for (const int column : nearest_) {
      const std::uint8_t* pixel = row + static_cast<std::size_t>(column) * channels;
      for (std::size_t c = 0; c < channels; ++c) *out++ = pixel[c];
    }
  }
}

}  // namespace millrace
