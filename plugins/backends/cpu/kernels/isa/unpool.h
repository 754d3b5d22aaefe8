// Backward of a pooling without overlapping windows, one output row at a time: each output pixel owns a cell of the input, stride
// x stride pixels, extended to the edge at the last row and column, and writes all of it once.
#pragma once

#include "kernels/isa/traverse.h"

namespace millrace::cpu::MILLRACE_ISA {

inline bool windows_are_apart(const PoolWindow& window) {
  return window.kernel_height <= window.stride_height && window.kernel_width <= window.stride_width;
}

inline std::int64_t window_area(const PoolWindow& window) { return window.stride_height * window.stride_width; }

// Sixteen indices of max pooling, in either width.
MILLRACE_INLINE i16 load_index(const std::uint8_t* p) { return widen(b16(*reinterpret_cast<const loose_b16*>(p))); }
MILLRACE_INLINE i16 load_index(const std::int32_t* p) { return *reinterpret_cast<const loose_i16*>(p); }
MILLRACE_INLINE void store_index(std::uint8_t* p, i16 index) { *reinterpret_cast<loose_b16*>(p) = low_bytes(index); }
MILLRACE_INLINE void store_index(std::int32_t* p, i16 index) { *reinterpret_cast<loose_i16*>(p) = index; }

// A cell: rows [top, bottom), columns [left, right) of the input; its window starts at (row, column), which may lie outside.
struct Cell {
  std::int64_t row, column, top, bottom, left, right;
};
inline Cell cell_of(const PoolWindow& window, const Map& x, const Map& y, std::int64_t i, std::int64_t j) {
  const std::int64_t row = i * window.stride_height - window.top, column = j * window.stride_width - window.left;
  const std::int64_t bottom = row + window.stride_height, right = column + window.stride_width;
  return {row,
          column,
          row > 0 ? row : 0,
          i + 1 == y.height || bottom > x.height ? x.height : bottom,
          column > 0 ? column : 0,
          j + 1 == y.width || right > x.width ? x.width : right};
}

// part(k): gradient of the window's k-th pixel. Pixels of the cell outside all windows get zero.
template <class T, class Lanes, class Part>
MILLRACE_INLINE void write_cell(const PoolWindow& window, const Cell& cell, T* dx, const Map& x, Lanes lanes, const Part& part) {
  for (std::int64_t h = cell.top; h < cell.bottom; ++h) {
    for (std::int64_t w = cell.left; w < cell.right; ++w) {
      const std::int64_t kh = h - cell.row, kw = w - cell.column;
      const bool inside = kh < window.kernel_height && kw < window.kernel_width;
      const v16 value = inside ? part(kh * window.kernel_width + kw) : v16{};
      lanes.put(dx + (h * x.width + w) * x.stride_pixel, value);
    }
  }
}

// One output row of one block. value(j) is the gradient at output column j; index holds that row. Maps are copied: see Cursor.
template <int Kernel, class T, class Index, class Lanes, class Value>
MILLRACE_INLINE void unpool_row(const PoolWindow window, const Map x, const Map y, T* dx, std::int64_t i, const Index* index,
                                Lanes lanes, const Value& value) {
  std::int64_t j = 0;
  if constexpr (Kernel != 0) {  // cells equal to their windows
    const bool even =
        window.top == 0 && window.left == 0 && (i + 1) * Kernel <= x.height && (i + 1 < y.height || (i + 1) * Kernel == x.height);
    const std::int64_t plain = !even ? 0 : y.width * Kernel == x.width ? y.width : y.width - 1;
    const std::int64_t pixel = x.stride_pixel, row = x.width * pixel;
    for (T* corner = dx + i * Kernel * row; j < plain; ++j, corner += Kernel * pixel) {
      const v16 gradient = value(j);
      const i16 which = load_index(index + j * Map::kLanes);
      for (int kh = 0; kh < Kernel; ++kh) {
        for (int kw = 0; kw < Kernel; ++kw) {
          lanes.put(corner + kh * row + kw * pixel, which == kh * Kernel + kw ? gradient : v16{});
        }
      }
    }
  }
  for (; j < y.width; ++j) {
    const v16 gradient = value(j);
    const i16 which = load_index(index + j * Map::kLanes);
    write_cell(window, cell_of(window, x, y, i, j), dx, x, lanes,
               [&](std::int64_t k) { return which == static_cast<std::int32_t>(k) ? gradient : v16{}; });
  }
}

// Calls body with the square kernel's size if it is 2 or 3 and the windows touch, else with 0.
template <int Value>
struct Constant {
  static constexpr int value = Value;
};
template <class Body>
void with_kernel(const PoolWindow& window, const Body& body) {
  const bool square = window.kernel_height == window.kernel_width && window.stride_height == window.kernel_height &&
                      window.stride_width == window.kernel_width;
  if (square && window.kernel_height == 2) return body(Constant<2>{});
  if (square && window.kernel_height == 3) return body(Constant<3>{});
  body(Constant<0>{});
}

}  // namespace millrace::cpu::MILLRACE_ISA
