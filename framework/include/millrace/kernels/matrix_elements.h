// Elements for the steps around the matrix products of orthogonalise.h, for every device.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/kernels/update_elements.h"

namespace millrace {

// Loads X from directions, one pack of a row at a time.
template <class T>
struct LoadMatrix {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "load matrix";
  const float* from = nullptr;       // of the directions
  const Squares* squares = nullptr;  // of them
  T* x = nullptr;                    // (height, width)
  std::int64_t rows = 0, columns = 0, height = 0, width = 0;
  float epsilon = 0;

  std::int64_t size() const { return height * width / kUpdatePack; }
  MILLRACE_KERNEL void operator()(std::int64_t i) const {
    const float divisor = static_cast<float>(sqrt(squares->gradient)) + epsilon;
    const std::int64_t packs = width / kUpdatePack, row = i / packs, first = (i - row * packs) * kUpdatePack;
    const bool transposed = rows > columns;
    UpdatePack<T> result;
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) {
      const std::int64_t r = transposed ? first + k : row, c = transposed ? row : first + k;
      result.values[k] = from_float<T>(r < rows && c < columns ? from[r * columns + c] / divisor : 0.0F);
    }
    pack_at(x, i) = result;
  }
  std::vector<MemoryUse> uses() const {
    return {{from, static_cast<std::size_t>(rows * columns) * sizeof(float), false},
            {squares, sizeof(Squares), false},
            {x, static_cast<std::size_t>(height * width) * sizeof(T), true}};
  }
};

// square = a I + b gram + c square, all (height, height).
template <class T>
struct MatrixPolynomial {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "matrix polynomial";
  const T* gram = nullptr;
  T* square = nullptr;
  std::int64_t height = 0;
  float a = 0, b = 0, c = 0;

  std::int64_t size() const { return height * height / kUpdatePack; }
  MILLRACE_KERNEL void operator()(std::int64_t i) const {
    const std::int64_t packs = height / kUpdatePack, row = i / packs, first = (i - row * packs) * kUpdatePack;
    const UpdatePack<T> g = pack_at(gram, i);
    UpdatePack<T> s = pack_at(square, i);
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) {
      const float diagonal = first + k == row ? a : 0.0F;
      s.values[k] = from_float<T>(diagonal + b * to_float(g.values[k]) + c * to_float(s.values[k]));
    }
    pack_at(square, i) = s;
  }
  std::vector<MemoryUse> uses() const {
    const std::size_t bytes = static_cast<std::size_t>(height * height) * sizeof(T);
    return {{gram, bytes, false}, {square, bytes, false}, {square, bytes, true}};
  }
};

// Stores X as directions, one pack of memory at a time, with zeros after the last element.
template <class T>
struct StoreMatrix {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "store matrix";
  const T* x = nullptr;  // (height, width)
  float* to = nullptr;   // (rows, columns), in whole packs
  std::int64_t rows = 0, columns = 0, height = 0, width = 0;

  std::int64_t size() const { return (rows * columns + kUpdatePack - 1) / kUpdatePack; }
  MILLRACE_KERNEL void operator()(std::int64_t i) const {
    std::int64_t row = i * kUpdatePack / columns, column = i * kUpdatePack - row * columns;
    UpdatePack<float> result;
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) {
      const std::int64_t at = rows > columns ? column * width + row : row * width + column;
      result.values[k] = row < rows ? to_float(x[at]) : 0.0F;
      const bool ends = ++column == columns;
      row += ends ? 1 : 0;
      column = ends ? 0 : column;
    }
    pack_at(to, i) = result;
  }
  std::vector<MemoryUse> uses() const {
    return {{x, static_cast<std::size_t>(height * width) * sizeof(T), false},
            {to, static_cast<std::size_t>(size() * kUpdatePack) * sizeof(float), true}};
  }
};

}  // namespace millrace
