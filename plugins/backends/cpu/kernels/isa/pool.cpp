#include "kernels/isa/moments.h"
#include "kernels/isa/unpool.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

// The pixels in the window of output pixel (i, j) that lie inside the input.
struct Span {
  std::int64_t top, bottom, left, right;
};
inline Span inside(const PoolWindow& window, const Map& x, std::int64_t i, std::int64_t j) {
  const std::int64_t row = i * window.stride_height - window.top, column = j * window.stride_width - window.left;
  const std::int64_t bottom = row + window.kernel_height, right = column + window.kernel_width;
  return {row > 0 ? row : 0, bottom < x.height ? bottom : x.height, column > 0 ? column : 0, right < x.width ? right : x.width};
}

// A window's largest value and its position; the first of equal ones, NaN above all.
struct Largest {
  v16 value;
  i16 where;
  MILLRACE_INLINE void offer(v16 other, std::int64_t place) {
    const i16 greater = (other > value) | (other != other);
    value = greater ? other : value;
    where = greater ? i16{} + static_cast<std::int32_t>(place) : where;
  }
  MILLRACE_INLINE void offer(v16 other) {
    value = other > value ? other : value;
    value = other != other ? other : value;
  }
};

template <class T, class Lanes>
MILLRACE_INLINE Largest largest_at(const PoolWindow& window, const Map& x, const T* plane, std::int64_t i, std::int64_t j,
                                   Lanes lanes) {
  const Span span = inside(window, x, i, j);
  const std::int64_t row = i * window.stride_height - window.top, column = j * window.stride_width - window.left;
  const std::int64_t first = (span.top - row) * window.kernel_width + span.left - column;
  Largest largest{lanes.get(plane + (span.top * x.width + span.left) * x.stride_pixel), i16{} + static_cast<std::int32_t>(first)};
  for (std::int64_t h = span.top; h < span.bottom; ++h) {
    for (std::int64_t w = span.left; w < span.right; ++w) {
      largest.offer(lanes.get(plane + (h * x.width + w) * x.stride_pixel), (h - row) * window.kernel_width + w - column);
    }
  }
  return largest;
}

// Computes a window of Kernel x Kernel pixels that lies inside the input.
template <int Kernel, class T, class Lanes>
MILLRACE_INLINE Largest largest_of(const T* corner, std::int64_t row, std::int64_t pixel, Lanes lanes) {
  Largest largest{lanes.get(corner), {}};
  for (int kh = 0; kh < Kernel; ++kh) {
    for (int kw = 0; kw < Kernel; ++kw) {
      if (kh + kw > 0) largest.offer(lanes.get(corner + kh * row + kw * pixel), kh * Kernel + kw);
    }
  }
  return largest;
}

// Output rows of one block. Maps are copied: see Cursor.
template <int Kernel, class T, class Index, class Lanes>
void max_pool_run(const PoolWindow window, const Map x, const Map y, Index* index, const Run run, Lanes lanes) {
  const T* const plane = at<T>(x, run.n, run.block, 0);
  T* out = at<T>(y, run);
  Index* where = index == nullptr ? nullptr : index + ((run.n * y.blocks() + run.block) * y.pixels() + run.pixel) * Map::kLanes;
  const auto put = [&](const Largest& largest) {
    lanes.put(out, largest.value);
    out += y.stride_pixel;
    if (where == nullptr) return;
    store_index(where, largest.where);
    where += Map::kLanes;
  };
  const std::int64_t rows = run.count / y.width, first = run.pixel / y.width, pixel = x.stride_pixel, row = x.width * pixel;
  for (std::int64_t i = first; i < first + rows; ++i) {
    std::int64_t j = 0;
    if constexpr (Kernel != 0) {
      const std::int64_t most = x.width / Kernel < y.width ? x.width / Kernel : y.width;
      const std::int64_t plain = window.top == 0 && window.left == 0 && (i + 1) * Kernel <= x.height ? most : 0;
      const T* corner = plane + i * Kernel * row;
      for (; j < plain; ++j, corner += Kernel * pixel) put(largest_of<Kernel>(corner, row, pixel, lanes));
    }
    for (; j < y.width; ++j) put(largest_at(window, x, plane, i, j, lanes));
  }
}

// The same without indices, for inference. kWidth: of windows; 0: any.
template <int kWidth, class T, class Lanes>
void max_value_run(const PoolWindow window, const Map x, const Map y, const Run run, Lanes lanes) {
  const T* const plane = at<T>(x, run.n, run.block, 0);
  T* out = at<T>(y, run);
  const std::int64_t pixel = x.stride_pixel, row = x.width * pixel, first = run.pixel / y.width;
  for (std::int64_t i = first; i < first + run.count / y.width; ++i) {
    for (std::int64_t j = 0; j < y.width; ++j, out += y.stride_pixel) {
      const Span span = inside(window, x, i, j);
      const T* from = plane + span.top * row + span.left * pixel;
      const bool whole = kWidth > 0 && span.right - span.left == kWidth;
      Largest largest{lanes.get(from), {}};
      for (std::int64_t h = span.top; h < span.bottom; ++h, from += row) {
        if (whole) {
#pragma GCC unroll 4
          for (int w = 0; w < kWidth; ++w) largest.offer(lanes.get(from + w * pixel));
        } else {
          for (std::int64_t w = 0; w < span.right - span.left; ++w) largest.offer(lanes.get(from + w * pixel));
        }
      }
      lanes.put(out, largest.value);
    }
  }
}

// Gathering backward, for windows that overlap: each input pixel reads all windows that cover it. part(i, j, k): contribution of
// window (i, j) to its k-th pixel.
template <class T, class Lanes, class Part>
MILLRACE_INLINE void gather_run(const PoolWindow window, const Map dx, const Map y, const Run run, Lanes lanes,
                                const Part& part) {
  T* out = at<T>(dx, run);
  for (std::int64_t pixel = run.pixel; pixel < run.pixel + run.count; ++pixel, out += dx.stride_pixel) {
    const std::int64_t h = pixel / dx.width + window.top, w = pixel % dx.width + window.left;
    const std::int64_t i_least = h < window.kernel_height ? 0 : (h - window.kernel_height) / window.stride_height + 1;
    const std::int64_t j_least = w < window.kernel_width ? 0 : (w - window.kernel_width) / window.stride_width + 1;
    v16 sum{};
    for (std::int64_t i = i_least; i < y.height && i * window.stride_height <= h; ++i) {
      for (std::int64_t j = j_least; j < y.width && j * window.stride_width <= w; ++j) {
        sum += part(i, j, (h - i * window.stride_height) * window.kernel_width + w - j * window.stride_width);
      }
    }
    lanes.put(out, sum);
  }
}

inline float average_divisor(const PoolWindow& window, const Map& x, std::int64_t i, std::int64_t j) {
  if (window.count_padding) return static_cast<float>(window.kernel_height * window.kernel_width);
  const Span span = inside(window, x, i, j);
  return static_cast<float>((span.bottom - span.top) * (span.right - span.left));
}

template <class T, class Lanes>
void average_run(const PoolWindow window, const Map x, const Map y, const Run run, Lanes lanes) {
  const T* const plane = at<T>(x, run.n, run.block, 0);
  T* out = at<T>(y, run);
  for (std::int64_t pixel = run.pixel; pixel < run.pixel + run.count; ++pixel, out += y.stride_pixel) {
    const std::int64_t i = pixel / y.width, j = pixel % y.width;
    const Span span = inside(window, x, i, j);
    v16 sum{};
    for (std::int64_t h = span.top; h < span.bottom; ++h) {
      for (std::int64_t w = span.left; w < span.right; ++w) sum += lanes.get(plane + (h * x.width + w) * x.stride_pixel);
    }
    lanes.put(out, sum / average_divisor(window, x, i, j));
  }
}

template <int kWidth, class T>
void max_value_of(const Tiling& tiling, const PoolWindow& window, const Map& x, const Map& y) {
  for_each_run(tiling, [&](const Run& run) {
    with_lanes(y, run.block, [&](auto lanes) { max_value_run<kWidth, T>(window, x, y, run, lanes); });
  });
}

template <class Index>
void max_pool_to(const PoolWindow& window, const Map& x, const Map& y, Index* index, float* mean, float* variance) {
  with_type(x.type, [&]<class T>(Type<T>) {
    with_kernel(window, [&](auto kernel) {
      const Tiling tiling(y, y.width, window_area(window));
      const auto pool = [&](const Run& run, auto lanes) {
        max_pool_run<decltype(kernel)::value, T>(window, x, y, index, run, lanes);
      };
      if (mean == nullptr && index == nullptr) {
        const auto of_width = window.kernel_width == 2   ? max_value_of<2, T>
                              : window.kernel_width == 3 ? max_value_of<3, T>
                                                         : max_value_of<0, T>;
        return of_width(tiling, window, x, y);
      }
      if (mean == nullptr) {
        for_each_run(tiling, [&](const Run& run) { with_lanes(y, run.block, [&](auto lanes) { pool(run, lanes); }); });
        return;
      }
      const Moments moments(tiling);
      for_each_slice(tiling, [&](std::int64_t slice, std::int64_t begin, std::int64_t end) {
        moments.clear(slice);
        for (std::int64_t item = begin; item < end; ++item) {
          tiling.runs_of(item, [&](const Run& run) {
            with_lanes(y, run.block, [&](auto lanes) {
              pool(run, lanes);
              moments.template add<T>(slice, item == begin, run, y, lanes);  // still in the nearest cache
            });
          });
        }
      });
      moments.finish(y.channels, mean, variance);
    });
  });
}

template <class Index>
void max_pool_backward_from(const PoolWindow& window, const Index* index, const Map& dy, const Map& dx) {
  const auto indices = [&](const Run& run) { return index + (run.n * dy.blocks() + run.block) * dy.pixels() * Map::kLanes; };
  with_type(dx.type, [&]<class T>(Type<T>) {
    if (!windows_are_apart(window)) {
      for_each_run(Tiling(dx), [&](const Run& run) {
        with_lanes(dx, run.block, [&](auto lanes) {
          const T* const gradient = at<T>(dy, run.n, run.block, 0);
          const Index* const which = indices(run);
          gather_run<T>(window, dx, dy, run, lanes, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
            const std::int64_t pixel = i * dy.width + j;
            const i16 chosen = load_index(which + pixel * Map::kLanes) == static_cast<std::int32_t>(k);
            return chosen ? lanes.get(gradient + pixel * dy.stride_pixel) : v16{};
          });
        });
      });
      return;
    }
    with_kernel(window, [&](auto kernel) {
      for_each_run(Tiling(dy, dy.width, window_area(window)), [&](const Run& run) {
        with_lanes(dx, run.block, [&](auto lanes) {
          const T* const gradient = at<T>(dy, run);
          for (std::int64_t done = 0; done < run.count; done += dy.width) {
            unpool_row<decltype(kernel)::value>(window, dx, dy, at<T>(dx, run.n, run.block, 0), (run.pixel + done) / dy.width,
                                                indices(run) + (run.pixel + done) * Map::kLanes, lanes, [&](std::int64_t j) {
                                                  return lanes.get(gradient + (done + j) * dy.stride_pixel);
                                                });
          }
        });
      });
    });
  });
}

}  // namespace

void max_pool(const PoolWindow& window, const Map& x, const Map& y, void* index, float* mean, float* variance) {
  if (has_wide_index(window))
    max_pool_to(window, x, y, static_cast<std::int32_t*>(index), mean, variance);
  else
    max_pool_to(window, x, y, static_cast<std::uint8_t*>(index), mean, variance);
}

void max_pool_backward(const PoolWindow& window, const void* index, const Map& dy, const Map& dx) {
  if (has_wide_index(window))
    max_pool_backward_from(window, static_cast<const std::int32_t*>(index), dy, dx);
  else
    max_pool_backward_from(window, static_cast<const std::uint8_t*>(index), dy, dx);
}

void average_pool(const PoolWindow& window, const Map& x, const Map& y) {
  with_type(x.type, [&]<class T>(Type<T>) {
    for_each_run(Tiling(y), [&](const Run& run) {
      with_lanes(y, run.block, [&](auto lanes) { average_run<T>(window, x, y, run, lanes); });
    });
  });
}

void average_pool_backward(const PoolWindow& window, const Map& dy, const Map& dx) {
  with_type(dx.type, [&]<class T>(Type<T>) {
    for_each_run(Tiling(dx), [&](const Run& run) {
      with_lanes(dx, run.block, [&](auto lanes) {
        const T* const gradient = at<T>(dy, run.n, run.block, 0);
        gather_run<T>(window, dx, dy, run, lanes, [&](std::int64_t i, std::int64_t j, std::int64_t) {
          return lanes.get(gradient + (i * dy.width + j) * dy.stride_pixel) / average_divisor(window, dx, i, j);
        });
      });
    });
  });
}

}  // namespace millrace::cpu::MILLRACE_ISA
