// Max and average pooling. Backward gathers: each input pixel sums over the windows that contain it, in a fixed order.
#pragma once

#include <math.h>

#include "portable.h"

namespace millrace::cuda {

struct PoolWindow {
  std::int32_t kernel_h = 2, kernel_w = 2;
  std::int32_t stride_h = 2, stride_w = 2;
  std::int32_t top = 0, left = 0;  // padding; each window contains at least one pixel
  bool count_padding = false;      // average: divide by the window's size instead of the pixels inside
};

struct PoolExtents {
  std::int64_t n = 0;
  std::int32_t h = 0, w = 0, out_h = 0, out_w = 0;
  std::int32_t packs = 0;  // per pixel
};

// A pack of a map of (n, height, width, packs).
struct PoolPlace {
  std::int64_t n = 0;
  std::int32_t row = 0, column = 0, pack = 0;

  // Position of a map's i-th pack.
  MILLRACE_HD static PoolPlace of(std::int64_t i, std::int32_t height, std::int32_t width, std::int32_t packs) {
    const Division pixel = divide(i, packs), line = divide(pixel.quotient, width), image = divide(line.quotient, height);
    return {image.quotient, static_cast<std::int32_t>(image.remainder), static_cast<std::int32_t>(line.remainder),
            static_cast<std::int32_t>(pixel.remainder)};
  }
};

// Offset of pack `pack` at (row, column) of image n.
MILLRACE_HD std::int64_t pool_offset(std::int64_t n, std::int32_t row, std::int32_t column, std::int32_t pack,
                                     std::int32_t height, std::int32_t width, std::int32_t packs) {
  return (((n * height + row) * width + column) * packs + pack) * kPack;
}

// Along one axis: [first, last).
struct PoolSpan {
  std::int32_t first, last;
};
// The pixels of a window inside the input. It begins at `begin`, which may be outside.
MILLRACE_HD PoolSpan pixels_of_window(std::int32_t begin, std::int32_t kernel, std::int32_t size) {
  const std::int32_t end = begin + kernel;
  return {begin > 0 ? begin : 0, end < size ? end : size};
}
// The windows that contain a pixel; `at` counts from the first window's begin.
MILLRACE_HD PoolSpan windows_of_pixel(std::int32_t at, std::int32_t kernel, std::int32_t stride, std::int32_t windows) {
  const std::int32_t last = at / stride + 1;
  return {at < kernel ? 0 : (at - kernel) / stride + 1, last < windows ? last : windows};
}

template <class Index>
struct alignas(sizeof(Index) * kPack > 16 ? 16 : sizeof(Index) * kPack) PoolIndices {  // a pack of indices
  Index values[kPack];
};

// A window's largest values and their positions. prepare(values) may change a pixel's eight channels before the comparison.
struct WindowMaximum {
  float largest[kPack];
  std::int32_t where[kPack];

  template <class T, class Prepare>
  MILLRACE_HD static WindowMaximum of(const T* x, const PoolExtents& at, const PoolWindow& window, const PoolPlace& place,
                                      const Prepare& prepare) {
    const std::int32_t top = place.row * window.stride_h - window.top, left = place.column * window.stride_w - window.left;
    const PoolSpan rows = pixels_of_window(top, window.kernel_h, at.h), columns = pixels_of_window(left, window.kernel_w, at.w);
    const std::int32_t start = (rows.first - top) * window.kernel_w + columns.first - left;
    WindowMaximum found;
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      found.largest[k] = -INFINITY;
      found.where[k] = start;
    }
    for (std::int32_t row = rows.first; row < rows.last; ++row) {
      const T* from = x + pool_offset(place.n, row, columns.first, place.pack, at.h, at.w, at.packs);
      std::int32_t here = (row - top) * window.kernel_w + columns.first - left;
      for (std::int32_t column = columns.first; column < columns.last; ++column, ++here, from += at.packs * kPack) {
        float values[kPack];
        load(from, values);
        prepare(values);
        MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
          const bool wins = values[k] > found.largest[k] || values[k] != values[k];
          found.largest[k] = wins ? values[k] : found.largest[k];
          found.where[k] = wins ? here : found.where[k];
        }
      }
    }
    return found;
  }

  // Writes to element `to` of a map and, unless null, of its index.
  template <class T, class Index>
  MILLRACE_HD void store_at(std::int64_t to, T* y, Index* index) const {
    store(y + to, largest);
    if (index == nullptr) return;
    PoolIndices<Index> indices;
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) indices.values[k] = static_cast<Index>(where[k]);
    *reinterpret_cast<PoolIndices<Index>*>(index + to) = indices;
  }
};

// Calls part(row and column of a window, its first element in the output, the pixel's position in it) for each window that
// contains a pixel.
template <class Part>
MILLRACE_HD void gather_windows(const PoolExtents& at, const PoolWindow& window, const PoolPlace& place, const Part& part) {
  const std::int32_t down = place.row + window.top, right = place.column + window.left;
  const PoolSpan rows = windows_of_pixel(down, window.kernel_h, window.stride_h, at.out_h);
  const PoolSpan columns = windows_of_pixel(right, window.kernel_w, window.stride_w, at.out_w);
  for (std::int32_t row = rows.first; row < rows.last; ++row) {
    for (std::int32_t column = columns.first; column < columns.last; ++column) {
      const std::int64_t from = pool_offset(place.n, row, column, place.pack, at.out_h, at.out_w, at.packs);
      part(row, column, from, (down - row * window.stride_h) * window.kernel_w + right - column * window.stride_w);
    }
  }
}

// The gradient by a pixel: the sum of the gradients of the windows that chose it.
template <class T, class Index>
MILLRACE_HD void gather_maxima(const PoolExtents& at, const PoolWindow& window, const PoolPlace& place, const T* dy,
                               const Index* index, float (&sum)[kPack]) {
  gather_windows(at, window, place, [&](std::int32_t, std::int32_t, std::int64_t from, std::int32_t here) {
    float gradient[kPack];
    load(dy + from, gradient);
    const auto indices = *reinterpret_cast<const PoolIndices<Index>*>(index + from);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) sum[k] += indices.values[k] == here ? gradient[k] : 0.0F;
  });
}

// 1 / the number of pixels in a window's mean.
MILLRACE_HD float average_share(const PoolExtents& at, const PoolWindow& window, std::int32_t row, std::int32_t column) {
  if (window.count_padding) return 1.0F / static_cast<float>(window.kernel_h * window.kernel_w);
  const PoolSpan rows = pixels_of_window(row * window.stride_h - window.top, window.kernel_h, at.h);
  const PoolSpan columns = pixels_of_window(column * window.stride_w - window.left, window.kernel_w, at.w);
  return 1.0F / static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
}

// The first of equal values wins, and NaN wins over all (the last NaN). index: position in the window, row by row. REQUIRES:
// Index can hold all positions of a window.
template <class T, class Index = std::uint8_t>
struct MaxPool {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "max pool";
  const T* x = nullptr;    // (n, h, w, packs * 8)
  T* y = nullptr;          // (n, out_h, out_w, packs * 8)
  Index* index = nullptr;  // as y; null: not wanted
  PoolExtents at;
  PoolWindow window;

  std::int64_t size() const { return at.n * at.out_h * at.out_w * at.packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const PoolPlace place = PoolPlace::of(i, at.out_h, at.out_w, at.packs);
    WindowMaximum::of(x, at, window, place, [](const float(&)[kPack]) {}).store_at(i * kPack, y, index);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, at.n * at.h * at.w * at.packs * kPack);
    visit_write(v, y, size() * kPack);
    visit_write(v, index, size() * kPack);
  }
};

template <class T, class Index = std::uint8_t>
struct MaxPoolBackward {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "max pool backward";
  const T* dy = nullptr;
  const Index* index = nullptr;
  T* dx = nullptr;
  PoolExtents at;
  PoolWindow window;
  bool add = false;

  std::int64_t size() const { return at.n * at.h * at.w * at.packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float sum[kPack] = {};
    gather_maxima(at, window, PoolPlace::of(i, at.h, at.w, at.packs), dy, index, sum);
    store(dx + i * kPack, sum, add);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    const std::int64_t outputs = at.n * at.out_h * at.out_w * at.packs * kPack;
    visit_read(v, dy, outputs);
    visit_read(v, index, outputs);
    visit_result(v, dx, size() * kPack, add);
  }
};

inline constexpr std::int64_t kNarrowPlaces = 256;  // window size up to which std::uint8_t suffices
template <class T>
using WideMaxPool = MaxPool<T, std::int32_t>;
template <class T>
using WideMaxPoolBackward = MaxPoolBackward<T, std::int32_t>;

template <class T>
struct AveragePool {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "average pool";
  const T* x = nullptr;
  T* y = nullptr;
  PoolExtents at;
  PoolWindow window;

  std::int64_t size() const { return at.n * at.out_h * at.out_w * at.packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    const PoolPlace place = PoolPlace::of(i, at.out_h, at.out_w, at.packs);
    const PoolSpan rows = pixels_of_window(place.row * window.stride_h - window.top, window.kernel_h, at.h);
    const PoolSpan columns = pixels_of_window(place.column * window.stride_w - window.left, window.kernel_w, at.w);
    float sum[kPack] = {};
    for (std::int32_t row = rows.first; row < rows.last; ++row) {
      const T* from = x + pool_offset(place.n, row, columns.first, place.pack, at.h, at.w, at.packs);
      for (std::int32_t column = columns.first; column < columns.last; ++column, from += at.packs * kPack) {
        float values[kPack];
        load(from, values);
        MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) sum[k] += values[k];
      }
    }
    const float share = average_share(at, window, place.row, place.column);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) sum[k] *= share;
    store(y + i * kPack, sum);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, at.n * at.h * at.w * at.packs * kPack);
    visit_write(v, y, size() * kPack);
  }
};

template <class T>
struct AveragePoolBackward {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "average pool backward";
  const T* dy = nullptr;
  T* dx = nullptr;
  PoolExtents at;
  PoolWindow window;
  bool add = false;

  std::int64_t size() const { return at.n * at.h * at.w * at.packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float sum[kPack] = {};
    const PoolPlace place = PoolPlace::of(i, at.h, at.w, at.packs);
    gather_windows(at, window, place, [&](std::int32_t row, std::int32_t column, std::int64_t from, std::int32_t) {
      const float share = average_share(at, window, row, column);
      float gradient[kPack];
      load(dy + from, gradient);
      MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) sum[k] += gradient[k] * share;
    });
    store(dx + i * kPack, sum, add);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, dy, at.n * at.out_h * at.out_w * at.packs * kPack);
    visit_result(v, dx, size() * kPack, add);
  }
};

// The gradient by the input of a max pooling, computed on reading instead of by MaxPoolBackward, with identical bits.
template <class T>
struct PooledGradient {
  const T* dy = nullptr;  // by the pooling's result
  const std::uint8_t* index = nullptr;
  PoolExtents at;
  PoolWindow window;

  explicit operator bool() const { return index != nullptr; }
  MILLRACE_HD Pack<T> of_pixel(std::int64_t row, std::int64_t pack) const {  // row: index into (n, h, w)
    const Division line = divide(row, at.w), image = divide(line.quotient, at.h);
    const PoolPlace place{image.quotient, static_cast<std::int32_t>(image.remainder), static_cast<std::int32_t>(line.remainder),
                          static_cast<std::int32_t>(pack)};
    float sum[kPack] = {};
    gather_maxima(at, window, place, dy, index, sum);
    return pack_of<T>(sum);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    const std::int64_t outputs = at.n * at.out_h * at.out_w * at.packs * kPack;
    visit_read(v, dy, outputs);
    visit_read(v, index, outputs);
  }
};

}  // namespace millrace::cuda
